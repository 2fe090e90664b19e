/**
 * The scene's surface as a mesh with a colour at each vertex, for browsers that have WebGL 2 but no
 * WebGPU.
 */

import { blockBytes } from "./blocks.js";
import { viewLens } from "../../viewer/page/motion/navigation.js";
import { useProgram } from "../../viewer/page/picture/program.js";

const VERTEX = `#version 300 es
  uniform mat4 projection;
  uniform vec3 low, size;
  in vec3 position;
  in vec3 colour;
  out vec3 shade;
  void main() {
    gl_Position = projection * vec4(low + size * position, 1.0);
    shade = colour;
  }`;
const FRAGMENT = `#version 300 es
  precision mediump float;
  in vec3 shade;
  out vec4 colour;
  void main() { colour = vec4(shade, 1.0); }`;
const STRIDE = 12; // bytes of a vertex: three uint16, two bytes of nothing, three uint8, one more
const NEAR = 0.05; // scene units
const FAR = 1e3;

export class MeshScreen {
  /** The page's mesh on `canvas`; null without WebGL 2 or a mesh. */
  static async create(canvas, scene) {
    const context = scene.mesh && canvas.getContext("webgl2");
    if (!context) return null;
    const [vertices, faces] = await Promise.all(["mesh-vertices", "mesh-faces"].map(blockBytes));
    return new MeshScreen(context, canvas, scene, vertices, new Uint32Array(faces));
  }

  constructor(context, canvas, scene, vertices, faces) {
    Object.assign(this, { context, canvas, view: null, count: faces.length, frame: 0 });
    const gl = context;
    const program = useProgram(gl, VERTEX, FRAGMENT);
    gl.bindBuffer(gl.ARRAY_BUFFER, gl.createBuffer());
    gl.bufferData(gl.ARRAY_BUFFER, vertices, gl.STATIC_DRAW);
    gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, gl.createBuffer());
    gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, faces, gl.STATIC_DRAW);
    const parts = [["position", gl.UNSIGNED_SHORT, 0], ["colour", gl.UNSIGNED_BYTE, 8]];
    for (const [name, type, offset] of parts) {
      const place = gl.getAttribLocation(program, name);
      gl.enableVertexAttribArray(place);
      gl.vertexAttribPointer(place, 3, type, true, STRIDE, offset);
    }
    const uniform = (name) => gl.getUniformLocation(program, name);
    gl.uniform3fv(uniform("low"), scene.mesh.low);
    gl.uniform3fv(uniform("size"), scene.mesh.size);
    this.projection = uniform("projection");
    gl.clearColor(...scene.background, 1);
    gl.enable(gl.DEPTH_TEST);
  }

  resize(width, height) {
    Object.assign(this.canvas, { width, height });
    if (this.view) this.look(this.view);
  }

  /** Show a view at the display's next frame. */
  look(view) {
    this.view = view;
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
    });
  }

  draw() {
    const { context: gl, canvas, view } = this;
    gl.viewport(0, 0, canvas.width, canvas.height);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    gl.uniformMatrix4fv(this.projection, false, clipMatrix(view, canvas.width, canvas.height));
    gl.drawElements(gl.TRIANGLES, this.count, gl.UNSIGNED_INT, 0);
  }

  /** No depth is kept: a double click finds nothing. */
  async pointAt() {
    return null;
  }
}

/** From scene positions to WebGL's clip coordinates, column by column. */
function clipMatrix(view, width, height) {
  const { pose } = view;
  const [fx, fy] = viewLens(view, width, height);
  const rows = [0, 1, 2].map((axis) => {
    const line = [pose[axis], pose[4 + axis], pose[8 + axis]];
    return [...line, -(line[0] * pose[3] + line[1] * pose[7] + line[2] * pose[11])];
  });
  const deep = [(FAR + NEAR) / (NEAR - FAR), (2 * FAR * NEAR) / (NEAR - FAR)];
  const clip = [
    rows[0].map((value) => 2 * fx * value),
    rows[1].map((value) => 2 * fy * value),
    rows[2].map((value, column) => deep[0] * value + (column === 3 ? deep[1] : 0)),
    rows[2].map((value) => -value),
  ];
  return [0, 1, 2, 3].flatMap((column) => clip.map((row) => row[column]));
}
