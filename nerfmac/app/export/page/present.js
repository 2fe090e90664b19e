/**
 * Two ways to draw a traced image on the canvas. A software adapter may not support a WebGPU
 * canvas, and the GPU process of some browsers crashes when one is requested. If the adapter is a
 * software adapter, the pixels are read back and drawn.
 */

import { blockText } from "./blocks.js";

/** A pipeline that draws an image to a texture of `format` with show.wgsl. */
function drawingPipeline(device, format) {
  const module = device.createShaderModule({ code: blockText("show-shader") });
  return device.createRenderPipeline({
    layout: "auto",
    vertex: { module, entryPoint: "corner" },
    fragment: { module, entryPoint: "pixel", targets: [{ format }] },
  });
}

class Drawing {
  constructor(device, canvas, format) {
    Object.assign(this, { device, canvas });
    this.pipeline = drawingPipeline(device, format);
    const usage = GPUBufferUsage.UNIFORM | GPUBufferUsage.COPY_DST;
    this.sizes = device.createBuffer({ size: 16, usage });
  }

  /** Record the drawing of `image` to a texture of canvas size, and return the open encoder. */
  drawTo(texture, image) {
    const { device, canvas, pipeline } = this;
    const sizes = new Float32Array([image.width, image.height, canvas.width, canvas.height]);
    device.queue.writeBuffer(this.sizes, 0, sizes);
    const encoder = device.createCommandEncoder();
    const pass = encoder.beginRenderPass({
      colorAttachments: [{ view: texture.createView(), loadOp: "clear", storeOp: "store" }],
    });
    pass.setPipeline(pipeline);
    const entries = [this.sizes, image.sums].map(
      (buffer, binding) => ({ binding, resource: { buffer } }),
    );
    const layout = pipeline.getBindGroupLayout(0);
    pass.setBindGroup(0, device.createBindGroup({ layout, entries }));
    pass.draw(3);
    pass.end();
    return encoder;
  }
}

/** Create the presenter that shows images of `adapter` on `canvas`. */
export function makePresenter(adapter, device, canvas) {
  const Presenter = adapter.info?.isFallbackAdapter ? ReadingPresenter : DirectPresenter;
  return new Presenter(device, canvas);
}

/** Shows images with a WebGPU context of the canvas. */
class DirectPresenter extends Drawing {
  constructor(device, canvas) {
    const format = navigator.gpu.getPreferredCanvasFormat();
    super(device, canvas, format);
    this.context = canvas.getContext("webgpu");
    this.context.configure({ device, format, alphaMode: "opaque" });
  }

  show(image) {
    const encoder = this.drawTo(this.context.getCurrentTexture(), image);
    this.device.queue.submit([encoder.finish()]);
  }
}

/** Shows images by reading their pixels back. */
class ReadingPresenter extends Drawing {
  constructor(device, canvas) {
    super(device, canvas, "rgba8unorm");
    this.context = canvas.getContext("2d", { alpha: false });
    this.texture = null;
  }

  async show(image) {
    const { device, canvas, context } = this;
    const { width, height } = canvas;
    if (this.texture?.width !== width || this.texture?.height !== height) {
      this.texture?.destroy();
      const usage = GPUTextureUsage.RENDER_ATTACHMENT | GPUTextureUsage.COPY_SRC;
      this.texture = device.createTexture({ size: [width, height], format: "rgba8unorm", usage });
    }
    const encoder = this.drawTo(this.texture, image);
    const bytesPerRow = Math.ceil((4 * width) / 256) * 256; // required by WebGPU
    const usage = GPUBufferUsage.COPY_DST | GPUBufferUsage.MAP_READ;
    const copy = device.createBuffer({ size: bytesPerRow * height, usage });
    encoder.copyTextureToBuffer(
      { texture: this.texture }, { buffer: copy, bytesPerRow }, [width, height],
    );
    device.queue.submit([encoder.finish()]);
    await copy.mapAsync(GPUMapMode.READ);
    const rows = new Uint8Array(copy.getMappedRange());
    const pixels = new ImageData(width, height);
    for (let row = 0; row < height; row += 1) {
      const first = row * bytesPerRow;
      pixels.data.set(rows.subarray(first, first + 4 * width), 4 * row * width);
    }
    copy.destroy();
    if (canvas.width === width && canvas.height === height) context.putImageData(pixels, 0, 0);
  }
}
