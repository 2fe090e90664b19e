/**
 * Drawing of frames from the kernel on a canvas.
 *
 * Every frame is acknowledged in the order of arrival, whether it is drawn or not. If a newer frame
 * has arrived by the time a frame is decoded, the older frame is skipped. Two frames in a row are
 * not skipped, because no frame would ever be drawn if decoding were slower than the kernel.
 *
 * When the view of the page moves away from the view of the frame, the frame is warped to the view
 * of the page (warp.js). Without WebGL2, or during a comparison with a photo, the shown frame does
 * not change until the next frame arrives.
 */

import { viewLens } from "../motion/navigation.js";
import { fitRectangle } from "./projection.js";

const KEPT = 1024; // number of frames for which latencies and times are recorded
const SHARP = 1.25; // maximum number of drawn pixels per pixel of a small frame, per axis
const SAME = 1e-4; // maximum difference between the numbers of two cameras that count as equal

export class Image {
  /**
   * `record` stores measurements for tests, see main.js. `warp` is null without WebGL2.
   */
  constructor({ canvas, link, record, motion, warp }) {
    Object.assign(this, { canvas, link, record, motion, warp });
    this.context = canvas.getContext("2d", { alpha: false });
    this.shown = null; // {bitmap, content}; content is null for the stored image
    this.camera = null; // {pose, lens} of the drawn image
    this.waiting = []; // ids of unacknowledged frames, oldest first
    this.newest = -Infinity;
    this.hasSkipped = false;
    this.listeners = [];
    link.on("frame", (content, buffers) => this.receive(content, buffers));
    motion.onMove((time) => this.follow(time));
  }

  /** Call `listener(content)` right after a frame is drawn or redrawn. */
  onDrawn(listener) {
    this.listeners.push(listener);
  }

  async receive(content, [jpeg, deflated]) {
    this.waiting.push(content.id);
    this.newest = content.id;
    const isWarped = this.warp && content.depth;
    const [bitmap, inverses] = await Promise.all([
      decodeJpeg(jpeg), isWarped ? inflate(deflated) : null,
    ]);
    if (this.link.isClosed) {
      bitmap?.close();
      return;
    }
    const isLate = !this.waiting.includes(content.id); // a newer frame was decoded earlier
    const mayWait = this.newest !== content.id && !this.hasSkipped;
    if (bitmap && !isLate && !mayWait) this.show(bitmap, content, inverses);
    else bitmap?.close();
    this.hasSkipped = bitmap !== null && !isLate && mayWait;
    if (!isLate) this.ackUpTo(content.id);
  }

  ackUpTo(id) {
    const count = this.waiting.indexOf(id) + 1;
    for (const each of this.waiting.splice(0, count)) this.link.post({ kind: "ack", id: each });
  }

  /** Show the image that is stored in the notebook, until a kernel sends frames. */
  async showStill(jpeg) {
    const bitmap = await decodeJpeg(jpeg);
    if (bitmap && !this.link.isLive && !this.link.isClosed) this.show(bitmap, null);
    else bitmap?.close();
  }

  show(bitmap, content, inverses = null) {
    this.shown?.bitmap.close();
    this.shown = { bitmap, content };
    if (inverses) this.warp.load(bitmap, content, inverses);
    this.redraw();
    if (!content) return;
    this.record.lastFrame = { ...content };
    keepLast(this.record.received, performance.now());
    this.note(inverses ? null : content.t); // the warp has already shown the pointer motion
  }

  /** Redraw after an event at `time` has moved the view. */
  follow(time) {
    if (!this.warp || !this.shown?.content?.depth) return;
    this.redraw();
    this.note(time);
  }

  /** Record the time of a change of the image, and the latency since the event that caused it. */
  note(time) {
    const { record } = this;
    const now = performance.now();
    keepLast(record.frames, now);
    if (time !== null && time !== undefined) {
      keepLast(record.latencies, now - time);
      keepLast(record.answered, now);
    }
    record.pose = this.camera.pose;
    this.canvas.dispatchEvent(new Event("drawn")); // for tests that measure
  }

  /** Give the canvas a size in device pixels. */
  resize(width, height) {
    if (this.canvas.width === width && this.canvas.height === height) return;
    this.canvas.width = width;
    this.canvas.height = height;
    this.drawFrame(); // a browser may show the warp later
    this.redraw();
  }

  /** Draw the frame without a warp. Under a warp this is not repeated for each frame, because without
   * a GPU the browser needs as long for it as for a warp. */
  drawFrame() {
    const { shown, context, canvas: { width, height } } = this;
    context.fillStyle = "#14161a";
    context.fillRect(0, 0, width, height);
    if (!shown) return;
    const frame = shown.content ?? shown.bitmap;
    const at = fitRectangle(width, height, frame.width, frame.height);
    context.drawImage(shown.bitmap, at.left, at.top, at.width, at.height);
  }

  /** Show the frame, or its warp if the view has moved. */
  redraw() {
    const content = this.shown?.content ?? null;
    this.camera = this.warped();
    if (!this.camera) {
      this.camera = content;
      this.drawFrame();
      this.warp?.hide();
    }
    for (const listener of this.listeners) listener(content);
  }

  /** Return the target camera of the warp, or null if the frame is not warped. */
  warped() {
    const { warp, canvas: { width, height }, motion: { view } } = this;
    const content = this.shown?.content;
    if (!warp || !view || !content?.depth) return null;
    const camera = { pose: view.pose, lens: viewLens(view, width, height) };
    if (isAlike(camera.pose, content.pose) && isAlike(camera.lens, content.lens)) return null;
    const scale = Math.min(1, SHARP * content.scale);
    const size = [width, height].map((side) => Math.max(1, Math.round(scale * side)));
    return warp.draw(camera, ...size) ? camera : null;
  }

  /** Return the image on screen, as a PNG. */
  toBlob() {
    const { canvas, warp } = this;
    const copy = new OffscreenCanvas(canvas.width, canvas.height);
    const context = copy.getContext("2d");
    this.redraw(); // a WebGL image can be read only in the task that draws it
    const isWarped = warp !== null && !warp.canvas.hidden;
    context.drawImage(isWarped ? warp.canvas : canvas, 0, 0, copy.width, copy.height);
    return copy.convertToBlob({ type: "image/png" });
  }

  /** Return the rectangle of the image in an area of the given size, in the same units. */
  rectangle(width, height) {
    const frame = this.shown?.content ?? this.shown?.bitmap;
    const isWarped = this.camera !== (this.shown?.content ?? null);
    if (!frame || isWarped) return { left: 0, top: 0, width, height };
    return fitRectangle(width, height, frame.width, frame.height);
  }

  close() {
    this.shown?.bitmap.close();
    this.shown = null;
    this.warp?.close();
  }
}

/** Decode the image in `bytes`. The result is null if `bytes` are not an image. */
export async function decodeJpeg(bytes) {
  if (!bytes?.byteLength) return null;
  try {
    return await createImageBitmap(new Blob([bytes], { type: "image/jpeg" }));
  } catch {
    return null;
  }
}

/** Return the uint16 numbers in deflated `bytes`. */
async function inflate(bytes) {
  const inflated = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint16Array(await new Response(inflated).arrayBuffer());
}

/** Return whether the numbers in two lists differ by at most rounding errors. */
function isAlike(one, other) {
  return one.every((value, index) => (
    Math.abs(value - other[index]) <= SAME * Math.max(1, Math.abs(value))
  ));
}

function keepLast(values, value) {
  values.push(value);
  if (values.length > KEPT) values.shift();
}
