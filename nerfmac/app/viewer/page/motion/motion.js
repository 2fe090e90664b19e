/**
 * The current view of the page, its motion by pointer and keys, and the messages about it.
 *
 * Pointer and key motion is accumulated between animation frames. Each animation frame moves the
 * view. A page that warps images shows the new view immediately and sends the view to the kernel at
 * most once per INTERVAL, because images take longer than INTERVAL and reading messages slows them
 * down. Several inputs (pointer, keys, wheel) may move the view at the same time, and each input
 * holds the view during its motion. While any input holds the view, messages contain `moving`, and
 * a last message reports the end of all holds. A hold without motion sends no message, because a
 * click is not a motion.
 *
 * Only the page changes its view. If the kernel asks it to `go` to another view, for example to that of
 * a training camera, the page goes there and answers `went`.
 */

import { travelView } from "./navigation.js";

const INTERVAL = 50; // minimum milliseconds between two messages with the view

function atRest() {
  return { orbit: [0, 0], pan: [0, 0], dolly: 0, walk: [0, 0, 0] };
}

export class Motion {
  constructor({ link, warps }) {
    this.link = link;
    this.view = null; // see navigation.js; null until the kernel has sent one
    this.interval = warps ? INTERVAL : 0;
    this.told = -Infinity; // time of the last message to the kernel
    this.holders = new Set();
    this.travel = atRest();
    this.time = null; // time of the newest event that has not moved the view yet
    this.untold = null; // time of the newest event that has not been sent to the kernel
    this.isTold = false; // whether the last message reported a moving camera
    this.listeners = [];
    this.beforeMessage = () => {}; // keys.js adds the time for which keys were held
    this.onGo = () => {};
    link.collect((isUrgent) => this.message(isUrgent));
    link.on("go", (asked) => this.go(asked));
  }

  /** Call `listener(time)` after each move on this page, with the time of its event. */
  onMove(listener) {
    this.listeners.push(listener);
  }

  /** Go to a view of the kernel. The next frame shows it. `compared`: the photo next to the view. */
  go({ view, compared, moving }) {
    this.view = view;
    this.onGo();
    const isMoving = moving || this.holders.size > 0;
    this.isTold = isMoving;
    this.link.send({ kind: "went", moving: isMoving, compared, ...this.place() });
  }

  /** Change the vertical field of view in radians. */
  zoom(fov) {
    if (this.view !== null) this.jump({ ...this.view, fov });
  }

  /** Show another view at once. */
  jump(view) {
    this.view = view;
    this.untold = performance.now();
    this.wake();
    for (const listener of this.listeners) listener(this.untold);
  }

  /** Whether no kernel answers. */
  get isSilent() {
    return !this.link.isLive || !this.link.isAnswering;
  }

  /** Add the motion (orbit, pan, dolly, walk) of an event at `time`. */
  add({ orbit, pan, dolly = 0, walk }, time) {
    if (!this.link.isAnswering) return; // without the kernel, no image of the new view would follow
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

  /** Request the next animation frame. */
  wake() {
    this.link.wake();
  }

  /** After a move, report at the next animation frame that the camera is at rest. */
  settle() {
    this.isTold = true;
    this.wake();
  }

  /** Send the current view to the kernel. The kernel then ends the photo comparison, if active. */
  stay() {
    this.link.send({ kind: "move", t: performance.now(), moving: false, ...this.place() });
  }

  /** Release all holds now, so that the camera stops if the view is removed during a drag. */
  stop() {
    this.holders.clear();
    this.link.flush(true);
  }

  /** Move the view by the accumulated motion. */
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

  /** Return the unsent state of the view as a message, or null. */
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
    const { pose, center, fov } = this.view;
    return { pose, center, fov };
  }
}
