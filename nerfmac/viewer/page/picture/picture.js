/**
 * The frames that the kernel sends, on a canvas.
 *
 * Every frame is acknowledged in order of arrival, drawn or not. A decoded frame is skipped if a
 * newer one has already arrived, but never two in a row: if decoding were slower than the kernel,
 * nothing would ever be drawn.
 */

import { fitRectangle } from "./projection.js";

const KEPT = 1024; // number of latencies and times of frames that are kept

export class Picture {
  /** `record`: measurements for the status line and tests, see main.js. */
  constructor(canvas, link, record) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d", { alpha: false });
    this.link = link;
    this.record = record;
    this.shown = null; // {bitmap, content}: content is null for the still
    this.waiting = []; // ids not yet acknowledged, oldest first
    this.newest = -Infinity;
    this.hasSkipped = false;
    this.listeners = [];
    link.on("frame", (content, buffers) => this.receive(content, buffers[0]));
  }

  /** Call `listener(content)` right after a frame, and after each redraw of it. */
  onDrawn(listener) {
    this.listeners.push(listener);
  }

  async receive(content, jpeg) {
    this.waiting.push(content.id);
    this.newest = content.id;
    const bitmap = await decodeJpeg(jpeg);
    if (this.link.isClosed) {
      bitmap?.close();
      return;
    }
    const isLate = !this.waiting.includes(content.id); // a newer one was decoded sooner
    const mayWait = this.newest !== content.id && !this.hasSkipped;
    if (bitmap && !isLate && !mayWait) this.show(bitmap, content);
    else bitmap?.close();
    this.hasSkipped = bitmap !== null && !isLate && mayWait;
    if (!isLate) this.ackUpTo(content.id);
  }

  ackUpTo(id) {
    const count = this.waiting.indexOf(id) + 1;
    for (const each of this.waiting.splice(0, count)) this.link.post({ kind: "ack", id: each });
  }

  /** Show the still picture of a saved notebook, until a kernel sends frames. */
  async showStill(jpeg) {
    const bitmap = await decodeJpeg(jpeg);
    if (bitmap && !this.link.isLive && !this.link.isClosed) this.show(bitmap, null);
    else bitmap?.close();
  }

  show(bitmap, content) {
    this.shown?.bitmap.close();
    this.shown = { bitmap, content };
    if (content) this.note(content);
    this.redraw();
  }

  note(content) {
    const { record } = this;
    const now = performance.now();
    keepLast(record.frames, now);
    if (content.t !== null && content.t !== undefined) {
      keepLast(record.latencies, now - content.t);
      keepLast(record.answered, now);
    }
    record.pose = content.pose;
    record.lastFrame = { ...content };
  }

  /** Give the canvas a size in device pixels. */
  resize(width, height) {
    if (this.canvas.width === width && this.canvas.height === height) return;
    this.canvas.width = width;
    this.canvas.height = height;
    this.redraw();
  }

  redraw() {
    const { canvas, context, shown } = this;
    context.fillStyle = "#14161a";
    context.fillRect(0, 0, canvas.width, canvas.height);
    if (shown) {
      const at = this.rectangle(canvas.width, canvas.height);
      context.imageSmoothingEnabled = true;
      context.drawImage(shown.bitmap, at.left, at.top, at.width, at.height);
    }
    for (const listener of this.listeners) listener(shown?.content ?? null);
  }

  /** The rectangle of the frame in an area of this size, in the size's units. */
  rectangle(width, height) {
    if (!this.shown) return { left: 0, top: 0, width, height };
    const frame = this.shown.content ?? this.shown.bitmap;
    return fitRectangle(width, height, frame.width, frame.height);
  }

  close() {
    this.shown?.bitmap.close();
    this.shown = null;
  }
}

/** The decoded picture in `bytes`; null if they hold none. */
export async function decodeJpeg(bytes) {
  if (!bytes?.byteLength) return null;
  try {
    return await createImageBitmap(new Blob([bytes], { type: "image/jpeg" }));
  } catch {
    return null;
  }
}

function keepLast(values, value) {
  values.push(value);
  if (values.length > KEPT) values.shift();
}
