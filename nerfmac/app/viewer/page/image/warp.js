/**
 * Warping of the last image to the current camera, as a textured mesh with the depth of the image.
 * triangles.js creates the mesh.
 *
 * A vertex has the image position (x, y) and the depth z along the axis of the source camera. The
 * view is rotated by T = R_view^T R and translated by s = R_view^T (t - t_view) relative to the
 * source camera. In the view, the vertex has the position
 *
 *     q = T ((x - cx) / fx, (cy - y) / fy, -1)^T + s / z
 *
 * in the axes of the view, up to the factor z. A surface at infinity needs no special case. On a
 * plane, q is linear in (x, y), so the interpolation of the GPU is exact.
 *
 * The kernel sends 1 / distance on a grid; see nerfmac/app/viewer/depth_grid.py. In this grid, the
 * near surface extends beyond its outline by up to two cells, so the triangles that stretch at
 * disocclusions have background colors. The outermost vertices are outside the image and repeat the
 * values at the image border. Farther from the image, the warp shows the backdrop of
 * the scene instead of long stretched colors.
 */

import { useProgram } from "./program.js";
import { trianglesOf } from "./triangles.js";

const VERTEX = `#version 300 es
in float inverse;         // 1 / distance, as a fraction of its maximum
uniform float largest;    // maximum of 1 / distance, in 1 / scene units
uniform ivec2 size;       // columns and rows of vertices
uniform mat3 turn;        // T
uniform vec3 shift;       // s
uniform vec4 lens, viewLens;
out vec2 place;

#define NEAR 0.02         // scene units; nearer surfaces are not drawn
#define BEYOND 1.         // distance of the outermost vertices from the image, in image sizes

void main() {
  ivec2 index = ivec2(gl_VertexID % size.x, gl_VertexID / size.x);
  vec2 at = vec2(index - 1) / vec2(size - 3);
  place = mix(at, vec2(-BEYOND), equal(index, ivec2(0)));
  place = mix(place, vec2(1. + BEYOND), equal(index, size - 1));
  vec3 ray = vec3((place - lens.zw) / lens.xy * vec2(1, -1), -1);
  float inverseDepth = inverse * largest * length(ray);
  vec3 q = turn * ray + shift * inverseDepth;
  vec2 middle = (viewLens.zw * 2. - 1.) * vec2(1, -1);
  gl_Position = vec4(
    2. * viewLens.xy * q.xy - middle * q.z, -q.z - 2. * NEAR * inverseDepth, -q.z);
}`;

const FRAGMENT = `#version 300 es
precision mediump float;
uniform sampler2D image;
uniform vec3 backdrop;
in vec2 place;
out vec4 color;

#define FADE .1, .4       // distances from the image, in image sizes, between which it fades

void main() {
  vec2 outside = max(-place, place - 1.);
  float part = smoothstep(FADE, max(outside.x, outside.y));
  color = vec4(mix(texture(image, place).rgb, backdrop, part), 1);
}`;

const UNIFORMS = ["largest", "size", "turn", "shift", "lens", "viewLens", "backdrop"];

export class Warp {
  /** Create a warp that draws on `canvas` and shows the canvas, or return null without WebGL2. */
  static begin(canvas) {
    canvas.hidden = true;
    const gl = canvas.getContext("webgl2", { alpha: false, antialias: false });
    return gl && new Warp(canvas, gl);
  }

  constructor(canvas, gl) {
    Object.assign(this, { canvas, gl });
    this.backdrop = [0, 0, 0]; // red, green, and blue in [0, 1]
    this.source = null; // {pose, lens, depth, count} of the image; `count` is the number of indices
    this.setUp();
    canvas.addEventListener("webglcontextlost", (event) => {
      event.preventDefault(); // requests another context
      this.source = null;
      this.hide();
    });
    canvas.addEventListener("webglcontextrestored", () => this.setUp());
  }

  setUp() {
    const { gl } = this;
    this.source = null;
    const program = useProgram(gl, VERTEX, FRAGMENT);
    this.places = UNIFORMS.map((name) => gl.getUniformLocation(program, name));
    gl.bindTexture(gl.TEXTURE_2D, gl.createTexture());
    for (const axis of [gl.TEXTURE_WRAP_S, gl.TEXTURE_WRAP_T]) {
      gl.texParameteri(gl.TEXTURE_2D, axis, gl.CLAMP_TO_EDGE);
    }
    gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MIN_FILTER, gl.LINEAR);
    gl.bindBuffer(gl.ARRAY_BUFFER, gl.createBuffer());
    gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, gl.createBuffer());
    const inverse = gl.getAttribLocation(program, "inverse");
    gl.enableVertexAttribArray(inverse);
    gl.vertexAttribPointer(inverse, 1, gl.UNSIGNED_SHORT, true, 0, 0);
    gl.enable(gl.DEPTH_TEST);
    gl.depthFunc(gl.LEQUAL); // points at infinity have the cleared depth
  }

  /** Set an image and its grid codes `inverses` (uint16). `content` is the message of the frame. */
  load(bitmap, { pose, lens, depth }, inverses) {
    const { gl } = this;
    const { columns, rows } = depth;
    const indices = trianglesOf(inverses, columns, rows);
    gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, indices, gl.STREAM_DRAW);
    gl.bufferData(gl.ARRAY_BUFFER, inverses, gl.STREAM_DRAW);
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, gl.RGBA, gl.UNSIGNED_BYTE, bitmap);
    this.source = { pose, lens, depth, count: indices.length };
  }

  /** Show the image from a camera. Returns false if there is no image. */
  draw({ pose, lens }, width, height) {
    const { gl, canvas, source, places } = this;
    if (!source) return false;
    if (canvas.width !== width || canvas.height !== height) {
      Object.assign(canvas, { width, height });
      gl.viewport(0, 0, width, height);
    }
    const { turn, shift } = between(source.pose, pose);
    const [largest, size, turnAt, shiftAt, sourceLens, viewLens, backdrop] = places;
    gl.uniform3fv(backdrop, this.backdrop);
    gl.clearColor(...this.backdrop, 1);
    gl.uniform1f(largest, source.depth.largest);
    gl.uniform2i(size, source.depth.columns, source.depth.rows);
    gl.uniformMatrix3fv(turnAt, true, turn);
    gl.uniform3fv(shiftAt, shift);
    gl.uniform4fv(sourceLens, source.lens);
    gl.uniform4fv(viewLens, lens);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    gl.drawElements(gl.TRIANGLES, source.count, gl.UNSIGNED_INT, 0);
    canvas.hidden = false;
    return true;
  }

  hide() {
    this.canvas.hidden = true;
  }

  close() {
    this.gl.getExtension("WEBGL_lose_context")?.loseContext();
  }
}

/** T (9 numbers, row by row) and s of the formula above. */
function between(from, to) {
  const [turn, shift] = [[], []];
  for (const axis of [0, 1, 2]) {
    const along = (column, offset) => [0, 4, 8].reduce(
      (sum, row) => sum + to[row + axis] * (from[row + column] - offset * to[row + column]), 0,
    );
    turn.push(along(0, 0), along(1, 0), along(2, 0));
    shift.push(along(3, 1));
  }
  return { turn, shift };
}
