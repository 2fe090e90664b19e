/**
 * The view of the page and its moves. The pointer and key modules of the viewer use this object as
 * `motion`. Several inputs (pointer, keys, wheel) may move the view at the same time, and each input
 * holds the view during its motion. Motion is accumulated between animation frames. This module also
 * plays the camera path of the page.
 */

import { centerDistance, lookAt, travelView } from "../../viewer/page/motion/navigation.js";

const SWAY = 0.04; // maximum rotation of the swaying view, in image heights; 1 is pi radians
const SWAY_TIME = 16; // seconds

export class Flight {
  /** Fly from `home`. `path` is {fps, frames, closed} or null; a frame is 12 numbers and a fov. */
  constructor(home, path) {
    Object.assign(this, { home, path, view: home });
    this.screen = null; // {resize(width, height), look(view, isMoving), pointAt(x, y)}
    this.size = null; // [width, height] of the canvas, once it is known
    this.started = null; // performance.now() at the start of the path, while it plays
    this.isSwaying = false;
    this.isTouched = false; // whether the user has touched the page
    this.onPlay = () => {};
    this.holders = new Set();
    this.travels = []; // motions that have not been applied to the view yet
    this.frame = 0;
    this.beforeMessage = () => {}; // keys.js adds the time for which keys were held
  }

  /** Set the `screen` that shows the views. */
  begin(screen) {
    this.screen = screen;
    if (this.size) screen.resize(...this.size);
    this.show(this.view, false);
  }

  /** Set the canvas size in pixels. */
  resize(width, height) {
    this.size = [width, height];
    this.screen?.resize(width, height);
  }

  /** Add a motion: orbit, pan, dolly, or walk. */
  add({ orbit = [0, 0], pan = [0, 0], dolly = 0, walk = [0, 0, 0] }) {
    this.travels.push({ orbit, pan, dolly, walk });
    this.wake();
  }

  hold(source) {
    this.holders.add(source);
  }

  release(source) {
    if (this.holders.delete(source)) this.wake();
  }

  /** Move the view at the next animation frame. */
  wake() {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.beforeMessage();
      this.move(this.travels.splice(0));
    });
  }

  move(travels) {
    if (travels.length) this.stop();
    if (this.isPlaying) return; // a click holds the view but does not move it
    this.show(travels.reduce(travelView, this.view), this.holders.size > 0);
  }

  /** Return to the initial view. */
  reset() {
    this.stop();
    this.show(this.home, false);
  }

  /** Rotate towards the scene point at the image position (x, y) in [0, 1]. */
  async lookThrough(x, y) {
    const point = await this.screen?.pointAt(x, y);
    if (!point) return;
    this.stop();
    this.show(lookAt(this.view, point), false);
  }

  show(view, isMoving) {
    this.view = view;
    this.screen?.look(view, isMoving);
  }

  get isPlaying() {
    return this.started !== null;
  }

  /** Play the path repeatedly, from its start. */
  play() {
    this.isSwaying = false;
    this.onPlay(true);
    this.run((seconds) => this.viewAt(seconds));
  }

  /** The user has touched the page or pressed a key. */
  touch() {
    this.isTouched = true;
    if (this.isSwaying) this.stop();
  }

  /** Move slowly around the initial view, until `touch`, if the GPU is fast enough. */
  sway() {
    if (this.isTouched) return;
    this.isSwaying = true;
    const still = { orbit: [0, 0], pan: [0, 0], dolly: 0, walk: [0, 0, 0] };
    this.run((seconds) => {
      const angle = SWAY * Math.sin((2 * Math.PI * seconds) / SWAY_TIME);
      return this.screen?.isFast && travelView(this.home, { ...still, orbit: [angle, 0] });
    });
  }

  /** Show the views `viewAt(seconds)` until one is not a view, or until `stop`. */
  run(viewAt) {
    const started = (this.started = performance.now());
    const next = (now) => {
      if (this.started !== started) return;
      const view = viewAt(Math.max(now - started, 0) / 1000);
      if (!view) return void this.stop();
      this.show(view, true);
      requestAnimationFrame(next);
    };
    requestAnimationFrame(next);
  }

  /** Stop the path at the current view. */
  stop() {
    if (!this.isPlaying) return;
    this.started = null;
    this.isSwaying = false;
    this.onPlay(false);
    this.show(this.view, false);
  }

  /** The view on the path at a time in seconds. Its center is as far away as in the initial view. */
  viewAt(seconds) {
    const { fps, frames, closed } = this.path;
    const place = (Math.max(seconds, 0) * fps) % frames.length;
    const before = Math.floor(place);
    const after = closed ? (before + 1) % frames.length : Math.min(before + 1, frames.length - 1);
    const part = place - before;
    const mixed = frames[before].map((value, i) => value + part * (frames[after][i] - value));
    const pose = squared(mixed.slice(0, 12));
    const far = centerDistance(this.home);
    const center = [0, 4, 8].map((line) => pose[line + 3] - far * pose[line + 2]);
    return { pose, center, up: this.home.up, fov: mixed[12] };
  }
}

/** Orthogonalize a pose with almost orthogonal axes. The z axis does not change. */
function squared(pose) {
  const axis = (index) => [pose[index], pose[4 + index], pose[8 + index]];
  const unit = (vector) => vector.map((value) => value / Math.hypot(...vector));
  const back = unit(axis(2));
  const along = axis(1).reduce((sum, value, index) => sum + value * back[index], 0);
  const [a, b, c] = unit(axis(1).map((value, index) => value - along * back[index]));
  const [d, e, f] = back;
  const right = [b * f - c * e, c * d - a * f, a * e - b * d];
  const up = [a, b, c];
  return [0, 1, 2].flatMap((row) => [right[row], up[row], back[row], pose[4 * row + 3]]);
}
