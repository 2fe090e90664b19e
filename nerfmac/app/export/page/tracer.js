/**
 * The trained field on the GPU. WebGPU traces rays through the field.
 *
 * A camera is {pose, lens}. The pose has 12 numbers as in navigation.js, and the lens is fx, fy, cx,
 * cy in pixels. An image is {width, height, sums, depths}. `sums` contains linear colors, summed
 * over the samples, and the number of samples. `depths` contains distances in scene units.
 */

import { blockBytes, blockText, fromHalves } from "./blocks.js";
import { makePresenter } from "./present.js";

const GROUP = 8; // rows and columns of a workgroup, as in trace.wgsl
const FRAME_BYTES = 128; // size of `Frame` in trace.wgsl

/** The arrays of the field, {table, bits, weights, seen}. The table and the weights are float16. */
export async function readField({ levels, features }) {
  const names = ["table", "values", "bits", "weights", "seen"];
  const [codes, values, bits, weights, seen] = await Promise.all(names.map(blockBytes));
  const table = tableOf(new Uint8Array(codes), new Uint16Array(values), levels, features);
  return { table, bits, weights, seen };
}

/** Return the value of each code, from the 256 values of its level: float16 as Uint16Array. */
function tableOf(codes, values, levels, features) {
  const table = new Uint16Array(codes.length + (codes.length % 2));
  levels.forEach(([, , first, entries], level) => {
    const own = values.subarray(256 * level, 256 * (level + 1));
    const end = (first + entries) * features;
    for (let index = first * features; index < end; index += 1) table[index] = own[codes[index]];
  });
  return table;
}

export class Tracer {
  /** Create a tracer that shows images of a field on `canvas`. Returns null without WebGPU. */
  static async create(canvas, scene, field) {
    const adapter = await navigator.gpu?.requestAdapter({ powerPreference: "high-performance" });
    if (!adapter) return null;
    const isHalf = adapter.features.has("shader-f16");
    const { maxBufferSize, maxStorageBufferBindingSize } = adapter.limits;
    const device = await adapter.requestDevice({
      requiredFeatures: isHalf ? ["shader-f16"] : [],
      requiredLimits: { maxBufferSize, maxStorageBufferBindingSize },
    });
    return new Tracer(device, scene, field, isHalf, makePresenter(adapter, device, canvas));
  }

  constructor(device, scene, { table, bits, weights, seen }, isHalf, presenter) {
    Object.assign(this, { device, scene, presenter });
    const { UNIFORM, STORAGE } = GPUBufferUsage;
    this.inputs = [
      this.buffer(FRAME_BYTES, UNIFORM),
      this.filled(marchSettings(scene.march), UNIFORM),
      this.filled(levelSettings(scene.levels), UNIFORM),
      this.filled(bits, STORAGE),
      this.filled(table, STORAGE),
      this.filled(isHalf ? weights : fromHalves(weights), STORAGE),
      this.filled(seen, STORAGE),
    ];
    const half = isHalf ? "enable f16;\nalias half = f16;\n" : "alias half = f32;\n";
    this.shader = half + blockText("trace-shader");
    const module = device.createShaderModule({ code: this.shader });
    this.tracing = device.createComputePipeline({
      layout: "auto", compute: { module, entryPoint: "trace" },
    });
  }

  buffer(size, usage) {
    const { COPY_DST, COPY_SRC } = GPUBufferUsage;
    return this.device.createBuffer({ size, usage: usage | COPY_DST | COPY_SRC });
  }

  filled(values, usage) {
    const buffer = this.buffer(Math.ceil(values.byteLength / 4) * 4, usage);
    this.device.queue.writeBuffer(buffer, 0, values);
    return buffer;
  }

  /** Create an empty image with memory for `pixels`. It can also be used for a smaller image. */
  image(pixels) {
    const { STORAGE } = GPUBufferUsage;
    const [sums, depths] = [this.buffer(16 * pixels, STORAGE), this.buffer(4 * pixels, STORAGE)];
    return { width: 0, height: 0, sums, depths };
  }

  discard({ sums, depths }) {
    sums.destroy();
    depths.destroy();
  }

  /**
   * Trace the rows from `first` to `end` of an image from `camera`, with rays through the position
   * `offset` [x, y] in [0, 1] of each pixel. If `isAdded`, the samples are added to earlier samples.
   */
  trace(image, camera, { first = 0, end = image.height, offset = [0.5, 0.5], isAdded = false }) {
    const { device } = this;
    const frame = frameSettings(image, camera, this.scene.background, offset);
    frame.setUint32(112, first, true);
    frame.setUint32(116, end, true);
    frame.setFloat32(120, isAdded ? 1 : 0, true);
    device.queue.writeBuffer(this.inputs[0], 0, frame);
    const buffers = [...this.inputs, image.sums, image.depths];
    const encoder = device.createCommandEncoder();
    const pass = encoder.beginComputePass();
    pass.setPipeline(this.tracing);
    pass.setBindGroup(0, this.bound(this.tracing, buffers));
    pass.dispatchWorkgroups(Math.ceil(image.width / GROUP), Math.ceil((end - first) / GROUP));
    pass.end();
    device.queue.submit([encoder.finish()]);
  }

  /** Show an image on the canvas, scaled to the size of the canvas. May return a promise. */
  show(image) {
    return this.presenter.show(image);
  }

  bound(pipeline, buffers) {
    return this.device.createBindGroup({
      layout: pipeline.getBindGroupLayout(0),
      entries: buffers.map((buffer, binding) => ({ binding, resource: { buffer } })),
    });
  }

  /** Resolves when all requested work is done. */
  done() {
    return this.device.queue.onSubmittedWorkDone();
  }

  /** Read `count` floats of a buffer from index `first` on, as a Float32Array. */
  async read(buffer, first, count) {
    const usage = GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST;
    const copy = this.device.createBuffer({ size: 4 * count, usage });
    const encoder = this.device.createCommandEncoder();
    encoder.copyBufferToBuffer(buffer, 4 * first, copy, 0, 4 * count);
    this.device.queue.submit([encoder.finish()]);
    await copy.mapAsync(GPUMapMode.READ);
    const values = new Float32Array(copy.getMappedRange().slice(0));
    copy.destroy();
    return values;
  }
}

/** Return the contents of `MarchSettings` in march.wgsl. */
function marchSettings({ extent, near, step, cone, resolution, cascades }) {
  const values = new DataView(new ArrayBuffer(32));
  const lengths = [extent, near, step, cone, Math.log1p(cone)];
  lengths.forEach((length, index) => values.setFloat32(4 * index, length, true));
  values.setInt32(20, resolution, true);
  values.setInt32(24, cascades, true);
  return values;
}

/** Return the contents of an array of `HashLevel` in hash_encode.wgsl. */
function levelSettings(levels) {
  const values = new DataView(new ArrayBuffer(16 * levels.length));
  levels.forEach(([scale, ...shape], level) => {
    values.setFloat32(16 * level, scale, true);
    shape.forEach((count, index) => values.setUint32(16 * level + 4 + 4 * index, count, true));
  });
  return values;
}

/** Return the contents of `Frame` in trace.wgsl, without `rows` and `kept`. */
function frameSettings({ width, height }, { pose, lens }, background, offset) {
  const values = new DataView(new ArrayBuffer(FRAME_BYTES));
  const set = (at, numbers) => {
    numbers.forEach((number, index) => values.setFloat32(at + 4 * index, number, true));
  };
  for (const axis of [0, 1, 2, 3]) {
    set(16 * axis, [pose[axis], pose[4 + axis], pose[8 + axis]]);
  }
  set(64, lens);
  set(80, background);
  set(96, offset);
  values.setUint32(104, width, true);
  values.setUint32(108, height, true);
  return values;
}
