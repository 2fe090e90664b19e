/**
 * Choice of the next image on the canvas. While the view moves, a whole image is traced for each
 * display frame, with as many pixels as the GPU can trace in time. If the view does not move, the
 * image has the size of the canvas, and more samples per pixel are added. This image is traced in
 * strips, so that the next move waits for at most one strip.
 */

import { viewLens } from "../../viewer/page/motion/navigation.js";

const FRAME_TIME = 24; // allowed milliseconds for an image while the view moves
const STRIP_TIME = 40; // allowed milliseconds for a strip while the view does not move
const SOON = 600; // milliseconds; if a full image takes longer, a half-size image comes first
const FIRST_PIXELS = 96 * 64; // pixels of the first image, before the speed of the GPU is known
const LEAST_SCALE = 1 / 8; // minimum scale of the width and height while the view moves
const MOST_STRIPS = 12; // maximum number of strips per image, because each strip has a fixed cost
const LEAST_STRIP = 8192; // minimum number of pixels of a strip
const ROWS = 8; // the number of rows of a strip is a multiple of this
const REMEMBERED = 512; // number of recorded frame times

/** Number of samples per pixel while the view does not move. */
export const SAMPLES = 16;

export class Screen {
  /** `side` is the width, relative to the height of a landscape image, that must be visible. */
  constructor(tracer, canvas, side) {
    Object.assign(this, { tracer, canvas, side });
    this.size = null; // [width, height] of the next full-size images
    this.view = null;
    this.isMoving = false;
    this.pace = { whole: null, strip: null }; // pixels per millisecond
    this.images = []; // the shown image, and an image to trace to
    this.shown = null; // {view, width, height, samples} of the image on the canvas
    this.job = null; // the unfinished image: {..., row, image}
    this.isRunning = false;
    this.frames = []; // performance.now() when images of new views were shown
    this.listeners = [];
  }

  /** Call `listener()` after each image that was shown. */
  onShown(listener) {
    this.listeners.push(listener);
  }

  /** Show another view. `isMoving` means that another view follows soon. */
  look(view, isMoving) {
    this.view = view;
    this.isMoving = isMoving;
    this.wake();
  }

  /**
   * Set the size of images in pixels. The canvas has the new size from the next image on, because
   * changing the size of a canvas clears it.
   */
  resize(width, height) {
    if (this.size?.[0] !== width || this.size[1] !== height) {
      this.size = [width, height];
      this.images.forEach((image) => this.tracer.discard(image));
      this.images = [0, 1].map(() => this.tracer.image(width * height));
      this.shown = this.job = null;
    }
    this.wake();
  }

  /** Stop showing images. */
  close() {
    this.isRunning = true; // this prevents all further jobs
    this.view = null;
  }

  async wake() {
    if (this.isRunning) return;
    this.isRunning = true;
    try {
      while (this.plan()) {
        await new Promise(requestAnimationFrame);
        if (this.plan()) await this.work();
      }
    } catch {
      this.close(); // the GPU has stopped; main.js handles this
      return;
    }
    this.isRunning = false;
  }

  /** Create the next job or continue the current job. Returns false if there is nothing to do. */
  plan() {
    const { view, shown, size } = this;
    if (!view || !size) return false;
    if (this.job?.view === view) return true;
    this.job = null;
    const isNew = shown?.view !== view;
    if (this.isMoving && !isNew) return false;
    const pixels = size[0] * size[1];
    const affordable = this.pace.whole ? this.pace.whole * FRAME_TIME : FIRST_PIXELS;
    const scale = Math.max(LEAST_SCALE, Math.sqrt(affordable / pixels));
    if (isNew) this.begin(Math.min(1, scale), true);
    else if (shown.width < size[0]) {
      const isSlow = pixels / this.pace.whole > SOON && shown.width < 0.5 * size[0];
      this.begin(isSlow ? 0.5 : 1, false);
    } else if (shown.samples < SAMPLES) {
      this.job = { ...shown, row: 0, image: this.images[0], isWhole: false };
    } else return false;
    return true;
  }

  begin(scale, isWhole) {
    const [width, height] = this.size.map((side) => Math.max(1, Math.round(side * scale)));
    const image = Object.assign(this.images[1], { width, height });
    this.job = { view: this.view, width, height, samples: 0, row: 0, image, isWhole };
  }

  /** Trace the next strip of the job, and show the image if it is complete. */
  async work() {
    const { job, tracer } = this;
    const { width, height, samples, row, image } = job;
    const end = job.isWhole ? height : Math.min(row + this.stripRows(job), height);
    const start = performance.now();
    const offset = sampleOffset(samples);
    tracer.trace(image, cameraOf(job.view, width, height, this.side), {
      first: row, end, offset, isAdded: samples > 0,
    });
    job.row = end;
    if (end === height) await this.finish();
    await tracer.done();
    const kind = job.isWhole ? "whole" : "strip";
    const pace = ((end - row) * width) / Math.max(performance.now() - start, 1);
    this.pace[kind] = this.pace[kind] ? 0.7 * this.pace[kind] + 0.3 * pace : pace;
  }

  stripRows({ width, height }) {
    const fitting = ((this.pace.strip ?? this.pace.whole) * STRIP_TIME) / width;
    const least = Math.max(height / MOST_STRIPS, LEAST_STRIP / width);
    return ROWS * Math.ceil(Math.max(fitting, least) / ROWS);
  }

  async finish() {
    const { job, canvas, size: [width, height] } = this;
    this.job = null;
    if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
    if (job.image === this.images[1]) this.images.reverse();
    if (job.view !== this.shown?.view) {
      this.frames.push(performance.now());
      if (this.frames.length > REMEMBERED) this.frames.shift();
    }
    this.shown = { ...job, samples: job.samples + 1 };
    await this.tracer.show(job.image);
    for (const listener of this.listeners) listener();
  }

  /** Whether moving images have at least half of the width and height of the canvas. */
  get isFast() {
    return !this.pace.whole || 4 * this.pace.whole * FRAME_TIME >= this.size[0] * this.size[1];
  }

  /** The scene position at (x, y) in [0, 1] of the canvas, or null where no surface is visible. */
  async pointAt(x, y) {
    const { shown, tracer, images } = this;
    if (!shown) return null;
    const { width, height, view: { pose } } = shown;
    const column = Math.min(Math.floor(x * width), width - 1);
    const row = Math.min(Math.floor(y * height), height - 1);
    const [depth] = await tracer.read(images[0].depths, row * width + column, 1);
    if (!(depth > 0)) return null;
    const { lens: [fx, fy, cx, cy] } = cameraOf(shown.view, width, height, this.side);
    const local = [(x * width - cx) / fx, -(y * height - cy) / fy, -1];
    const far = depth / Math.hypot(...local);
    return [0, 4, 8].map((line) => pose[line + 3] + far * (
      pose[line] * local[0] + pose[line + 1] * local[1] + pose[line + 2] * local[2]));
  }
}

/**
 * The camera for an image of `width` x `height`; see tracer.js. If the image is narrower than
 * `side` times its height, the vertical field of view is larger, so that the sides of the subject
 * are not cut off.
 */
export function cameraOf(view, width, height, side) {
  const [fx, fy, cx, cy] = viewLens(view, width, height);
  const zoom = Math.min(1, width / height / side);
  return {
    pose: view.pose, lens: [zoom * fx * width, zoom * fy * height, cx * width, cy * height],
  };
}

/**
 * Position of sample `number` within a pixel. The first sample is in the middle, as in an image with
 * one sample. The other samples are points of the R2 sequence (Roberts 2018).
 */
function sampleOffset(number) {
  const plastic = 1.3247179572447460;
  return [1 / plastic, 1 / plastic ** 2].map((step) => (0.5 + number * step) % 1);
}
