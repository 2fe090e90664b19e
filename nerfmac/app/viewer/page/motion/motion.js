/**
 * The page's view of the scene, moved by pointer and keys, and told to the kernel.
 *
 * Travel is accumulated between animation frames. At each, it moves the view, which a page that
 * warps shows at once. The kernel is told where the view is, at most once an INTERVAL if the page
 * warps: its images take longer than that, and reading messages takes time from them. Several
 * things may move the view at once (pointer, keys, wheel); each holds it while it does. The message
 * says `moving` while anything holds it, and a last one says that nothing does. A hold without any
 * travel says nothing: a click is no motion.
 *
 * The kernel may change the view too, and so may another page of the same viewer. Then its frames
 * have a newer `version`, or another `mover`, and their view becomes the page's.
 */

import { travelView } from "./navigation.js";

const INTERVAL = 50; // milliseconds

function atRest() {
  return { orbit: [0, 0], pan: [0, 0], dolly: 0, walk: [0, 0, 0] };
}

export class Motion {
  /** `page`: the name by which the kernel knows this page. */
  constructor({ link, page, warps }) {
    Object.assign(this, { link, page });
    this.interval = warps ? INTERVAL : 0;
    this.told = -Infinity; // when the kernel was told last
    this.view = null; // see navigation.js; null until the kernel has sent one
    this.version = -1; // of the kernel's view that the page has moved
    this.holders = new Set();
    this.travel = atRest();
    this.time = null; // of the newest event that has not moved the view yet
    this.untold = null; // of the newest event that the kernel has not been told
    this.isTold = false; // whether the kernel has been told that the camera is moving
    this.listeners = [];
    this.beforeMessage = () => {}; // walking adds the time that its keys were held
    link.collect((isUrgent) => this.message(isUrgent));
  }

  /** Call `listener(time)` after each move of the page's own, with the time of its event. */
  onMove(listener) {
    this.listeners.push(listener);
  }

  /** Take over a frame's view, if the kernel or another page has changed it. */
  receive({ view, version, mover }) {
    const isOthers = mover !== null && mover !== this.page && this.holders.size === 0;
    if (version > this.version || isOthers) Object.assign(this, { view, version });
  }

  /** Change the vertical field of view, in radians; the kernel learns it as a setting. */
  zoom(fov) {
    if (this.view === null || this.view.fov === fov) return;
    this.view = { ...this.view, fov };
    for (const listener of this.listeners) listener(null);
  }

  /** Add travel, any of orbit, pan, dolly and walk, of an event at `time`. */
  add({ orbit, pan, dolly = 0, walk }, time) {
    if (!this.link.isAnswering) return; // the last image would be warped, and no other follow
    const sum = this.travel;
    for (const [total, part] of [[sum.orbit, orbit], [sum.pan, pan], [sum.walk, walk]]) {
      part?.forEach((value, axis) => (total[axis] += value));
    }
    sum.dolly += dolly;
    this.time = Math.max(this.time ?? 0, time);
    this.wake();
  }

  hold(source) {
    this.holders.add(source);
  }

  release(source) {
    this.holders.delete(source);
    if (this.holders.size === 0 && this.isTold) this.wake();
  }

  /** Ask for the next animation frame. */
  wake() {
    this.link.wake();
  }

  /** Send at the next animation frame that the camera is at rest, whatever has moved it. */
  settle() {
    this.isTold = true;
    this.wake();
  }

  /** Tell the kernel the view as it is, which ends a comparison. */
  stay() {
    this.link.send({ kind: "move", t: performance.now(), moving: false, ...this.place() });
  }

  /** Release all holds now, so that a view removed during a drag leaves nothing moving. */
  stop() {
    this.holders.clear();
    this.link.flush(true);
  }

  /** Move the view by what has been traveled. */
  advance() {
    const { time, travel } = this;
    if (time === null) return;
    this.travel = atRest();
    this.time = null;
    if (this.view === null) return;
    this.view = travelView(this.view, travel);
    this.untold = time;
    for (const listener of this.listeners) listener(time);
  }

  /** What the kernel has not been told yet, as a message, or null. */
  message(isUrgent) {
    this.beforeMessage();
    this.advance();
    const { untold } = this;
    const isMoving = this.holders.size > 0;
    if (untold === null && (isMoving || !this.isTold)) return null;
    const now = performance.now();
    if (isMoving && !isUrgent && now < this.told + this.interval) {
      this.wake();
      return null;
    }
    this.told = now;
    this.untold = null;
    this.isTold = isMoving;
    const message = { kind: "move", t: untold ?? now, moving: isMoving };
    return untold === null ? message : { ...message, ...this.place() };
  }

  place() {
    const { page, version, view: { pose, center } } = this;
    return { page, version, pose, center };
  }
}
