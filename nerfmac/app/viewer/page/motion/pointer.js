/**
 * Dragging, pinching, scrolling, and clicking on the image.
 *
 * A left drag or one finger orbits, a right drag or a drag with shift pans, two fingers pan and
 * dolly, the wheel dollies, and a double click looks at a point. Motion is relative to the height of
 * the area. A press that is released within CLICK_TRAVEL and CLICK_TIME is a click and does not move
 * the view.
 *
 * `targets` handle elements drawn on the image: `press(place)` returns {move(place), end()} if it
 * handles the drag, `click(place)` whether it handles the click; `hover(place)` is called when the
 * pointer moves (null: away), `look(place, time)` for double clicks. A place is {x, y} in CSS
 * pixels of the area.
 */

import { capturePointer } from "../controls/controls.js";

const CLICK_TRAVEL = 4; // CSS pixels
const CLICK_TIME = 300; // milliseconds
const DOUBLE_TIME = 400;
const DOUBLE_TRAVEL = 24;
const WHEEL_REST = 150; // milliseconds without scrolling after which the wheel has stopped
const WHEEL_DOLLY = 0.0015; // change of log(distance) per CSS pixel of scrolling
const PINCH_DOLLY = 0.01; // change of log(distance) per CSS pixel of a pinch on a trackpad
const WHEEL_UNITS = [1, 16, 400]; // CSS pixels per unit of scrolling: pixel, line, page

export class PointerInput {
  constructor(area, motion, targets, signal) {
    Object.assign(this, { area, motion, targets });
    this.places = new Map(); // place of each pointer that is down
    this.gesture = null;
    this.lastClick = null;
    this.wheelTimer = 0;
    const handlers = {
      pointerdown: (event) => this.press(event),
      pointermove: (event) => this.move(event),
      pointerup: (event) => this.lift(event, true),
      pointercancel: (event) => this.lift(event, false),
      lostpointercapture: (event) => this.lift(event, false),
      pointerleave: () => targets.hover(null),
      contextmenu: (event) => event.preventDefault(),
    };
    for (const [type, handler] of Object.entries(handlers)) {
      area.addEventListener(type, handler, { signal });
    }
    area.addEventListener("wheel", (event) => this.wheel(event), { signal, passive: false });
    window.addEventListener("blur", () => this.drop(), { signal });
    signal.addEventListener("abort", () => clearTimeout(this.wheelTimer));
  }

  placeOf(event) {
    const box = this.area.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  press(event) {
    this.area.focus({ preventScroll: true });
    capturePointer(this.area, event);
    const place = this.placeOf(event);
    this.places.set(event.pointerId, place);
    if (this.places.size > 1) {
      this.gesture?.grab?.end();
      this.motion.hold("pointer");
      this.gesture = { kind: this.places.size === 2 ? "pinch" : "none", isDrag: true };
      return;
    }
    const isLeft = event.button === 0;
    const kind = isLeft && !event.shiftKey ? "orbit" : "pan";
    const grab = isLeft ? this.targets.press(place) : null;
    this.gesture = {
      kind: grab ? "grab" : kind, grab, isLeft, isDrag: false, from: place, time: event.timeStamp,
    };
  }

  move(event) {
    const place = this.placeOf(event);
    const before = this.places.get(event.pointerId);
    if (!before) {
      if (event.pointerType !== "touch") this.targets.hover(place);
      return;
    }
    const { gesture } = this;
    if (gesture.kind === "pinch") this.pinch(event, place);
    else if (gesture.kind !== "none") this.drag(event, place, before);
  }

  drag(event, place, before) {
    const { gesture, motion } = this;
    if (place.x === before.x && place.y === before.y) return;
    if (!gesture.isDrag) {
      if (this.isClick(event, place)) return; // `before` does not change, so no motion is lost
      gesture.isDrag = true;
      if (!gesture.grab) motion.hold("pointer");
    }
    this.places.set(event.pointerId, place);
    if (gesture.grab) {
      gesture.grab.move(place);
      return;
    }
    const height = this.area.clientHeight || 1;
    const travel = [(place.x - before.x) / height, (place.y - before.y) / height];
    motion.add({ [gesture.kind]: travel }, event.timeStamp);
  }

  pinch(event, place) {
    const other = [...this.places].find(([id]) => id !== event.pointerId)[1];
    const before = this.places.get(event.pointerId);
    const apart = (one) => Math.max(Math.hypot(one.x - other.x, one.y - other.y), 1);
    const height = this.area.clientHeight || 1;
    this.places.set(event.pointerId, place);
    this.motion.add({
      pan: [(place.x - before.x) / 2 / height, (place.y - before.y) / 2 / height],
      dolly: Math.log(apart(before) / apart(place)),
    }, event.timeStamp);
  }

  lift(event, isRelease) {
    if (!this.places.has(event.pointerId)) return;
    const { gesture } = this;
    const place = this.placeOf(event);
    if (isRelease && !gesture.isDrag && this.isClick(event, place)) {
      if (gesture.isLeft) this.click(event, place);
    } else if (isRelease && ["orbit", "pan", "grab"].includes(gesture.kind)) {
      this.drag(event, place, this.places.get(event.pointerId));
    }
    this.places.delete(event.pointerId);
    if (this.places.size > 0) gesture.kind = "none"; // the last of several fingers has no effect
    else this.drop();
  }

  /** End all gestures. */
  drop() {
    this.places.clear();
    this.gesture?.grab?.end();
    this.gesture = null;
    this.motion.release("pointer");
  }

  isClick(event, place) {
    const { from, time } = this.gesture;
    const isNear = Math.hypot(place.x - from.x, place.y - from.y) <= CLICK_TRAVEL;
    return isNear && event.timeStamp - time <= CLICK_TIME;
  }

  click(event, place) {
    const last = this.lastClick;
    this.lastClick = null;
    if (last && event.timeStamp - last.time <= DOUBLE_TIME
      && Math.hypot(place.x - last.x, place.y - last.y) <= DOUBLE_TRAVEL) {
      this.targets.look(place, event.timeStamp);
    } else if (!this.targets.click(place, event.timeStamp)) {
      this.lastClick = { ...place, time: event.timeStamp };
    }
  }

  wheel(event) {
    event.preventDefault();
    event.stopPropagation();
    const pixels = event.deltaY * WHEEL_UNITS[event.deltaMode];
    if (pixels === 0) return;
    this.motion.hold("wheel");
    // A browser reports a pinch on a trackpad as a wheel with ctrl, in much smaller steps.
    const isPinch = event.ctrlKey && Math.abs(pixels) < 50;
    const dolly = pixels * (isPinch ? PINCH_DOLLY : WHEEL_DOLLY);
    this.motion.add({ dolly }, event.timeStamp);
    clearTimeout(this.wheelTimer);
    this.wheelTimer = setTimeout(() => this.motion.release("wheel"), WHEEL_REST);
  }
}
