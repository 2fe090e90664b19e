/* Functions that run in the page and return results of its tracer to the tests. */

({
  /** The results of probe.wgsl at `points`, [x, y, z] and a direction each; `march` are settings.
  */
  async probe({ text, points, columns }) {
    const { tracer } = document.body.nerfmac.flight.screen;
    const { device } = tracer;
    const code = tracer.shader + text;
    const module = device.createShaderModule({ code });
    const compute = { module, entryPoint: "probe" };
    const pipeline = await device.createComputePipelineAsync({ layout: "auto", compute });
    const march = tracer.buffer(32, GPUBufferUsage.UNIFORM);
    const encoder = device.createCommandEncoder();
    encoder.copyBufferToBuffer(tracer.inputs[1], 0, march, 0, 32);
    device.queue.submit([encoder.finish()]);
    const given = tracer.filled(new Float32Array(points.flat()), GPUBufferUsage.STORAGE);
    const count = points.length / 2;
    const found = tracer.buffer(4 * count * columns, GPUBufferUsage.STORAGE);
    const buffers = [null, march, ...tracer.inputs.slice(2)];
    const own = buffers.map((buffer, binding) => ({ binding, resource: { buffer } })).slice(1);
    const group = (number, entries) => device.createBindGroup({
      layout: pipeline.getBindGroupLayout(number), entries,
    });
    const commands = device.createCommandEncoder();
    const pass = commands.beginComputePass();
    pass.setPipeline(pipeline);
    pass.setBindGroup(0, group(0, own));
    pass.setBindGroup(1, group(1, [given, found].map(
      (buffer, binding) => ({ binding, resource: { buffer } }),
    )));
    pass.dispatchWorkgroups(Math.ceil(count / 64));
    pass.end();
    device.queue.submit([commands.finish()]);
    return Array.from(await tracer.read(found, 0, count * columns));
  },

  /** Sums and depths of an image, a list of `offsets` [x, y] in pixels, one for each sample. */
  async image({ pose, lens, width, height, offsets, strips }) {
    const { tracer } = document.body.nerfmac.flight.screen;
    const image = Object.assign(tracer.image(width * height), { width, height });
    offsets.forEach((offset, sample) => {
      for (let first = 0; first < height; first += strips) {
        const end = Math.min(first + strips, height);
        tracer.trace(image, { pose, lens }, { first, end, offset, isAdded: sample > 0 });
      }
    });
    const sums = await tracer.read(image.sums, 0, 4 * width * height);
    const depths = await tracer.read(image.depths, 0, width * height);
    tracer.discard(image);
    return [Array.from(sums), Array.from(depths)];
  },
})
