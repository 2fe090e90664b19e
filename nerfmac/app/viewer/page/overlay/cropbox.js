/**
 * The crop box over the image, with a handle on each of its six faces.
 *
 * A handle moves only along the axis of its face, within the scene cube, and not past the opposite
 * face. The face moves to the point on this axis that is closest to the ray through the pointer.
 */

import { makeToggle } from "../controls/controls.js";
import { alongAxis } from "../image/projection.js";
import { strokeRimmed, traceLines } from "./sight.js";

const HANDLE_REACH = 13; // maximum distance from the pointer to a handle that it hits, CSS pixels
const HANDLE_RADIUS = 6;
const THINNEST = 0.02; // minimum thickness of the box, as a fraction of the cube's side length
const HANDLE_COLORS = ["#ff7b72", "#7ee787", "#79c0ff"]; // colors of the handles along x, y, and z
const BOX_EDGES = [0, 1, 2].flatMap((axis) => [0, 1].flatMap((one) => [0, 1].map((other) => {
  const ends = [0, 1].map((end) => {
    const sides = [0, 0, 0];
    [sides[axis], sides[(axis + 1) % 3], sides[(axis + 2) % 3]] = [end, one, other];
    return sides;
  });
  return { ends, faces: [[(axis + 1) % 3, one], [(axis + 2) % 3, other]] };
})));

export class CropBox {
  constructor(link, settings) {
    this.settings = settings;
    this.cube = null; // lowest and highest corner of the scene cube
    this.subject = null; // corners of a box around the main object, if the kernel has sent them
    this.last = null; // box that is restored when the user enables the crop again
    this.hovered = null; // {axis, side}
    link.on("state", ({ scene }) => Object.assign(this, { cube: scene.cube, subject: scene.subject }));
    const toggle = makeToggle({
      label: "Crop box", title: "Crop the scene to a box; drag the handles on its faces",
      onChange: (isOn) => this.setOn(isOn),
    });
    this.control = settings.bind("crop", {
      ...toggle, show: (box) => toggle.show(box !== null),
    });
  }

  get box() {
    return this.settings.values.crop ?? null;
  }

  setOn(isOn) {
    if (!isOn) this.last = this.box;
    this.settings.set("crop", isOn ? this.last ?? this.subject ?? this.cube : null);
  }

  /** Return the six handles {axis, side, point}; `point` is the center of a face. */
  handles() {
    const { box } = this;
    if (!box) return [];
    const middle = box[0].map((low, axis) => (low + box[1][axis]) / 2);
    return [0, 1, 2].flatMap((axis) => [0, 1].map((side) => {
      const point = [...middle];
      point[axis] = box[side][axis];
      return { axis, side, point };
    }));
  }

  get isBlank() {
    return !this.box;
  }

  draw(context, sight) {
    const { box } = this;
    const isFront = (axis, side) => (side === 1 ? 1 : -1) * (sight.eye[axis] - box[side][axis]) > 0;
    const isInside = [0, 1, 2].every((axis) => !isFront(axis, 0) && !isFront(axis, 1));
    for (const { ends, faces } of BOX_EDGES) {
      const corners = ends.map((sides) => sides.map((side, axis) => box[side][axis]));
      context.beginPath();
      traceLines(context, sight, [corners]);
      context.globalAlpha = isInside || faces.some(([axis, side]) => isFront(axis, side)) ? 1 : 0.35;
      strokeRimmed(context, "#ffffff", 1);
    }
    context.globalAlpha = 1;
    for (const handle of this.handles()) this.drawHandle(context, sight, handle);
  }

  drawHandle(context, sight, { axis, side, point }) {
    const place = sight.point(point);
    if (!place) return;
    const isHovered = this.hovered?.axis === axis && this.hovered.side === side;
    context.beginPath();
    context.arc(place.x, place.y, isHovered ? HANDLE_RADIUS + 2 : HANDLE_RADIUS, 0, 2 * Math.PI);
    context.fillStyle = HANDLE_COLORS[axis];
    context.fill();
    context.lineWidth = isHovered ? 2.5 : 1.5;
    context.strokeStyle = isHovered ? "#ffffff" : "rgb(0 0 0 / 60%)";
    context.stroke();
  }

  /** Return the handle at a position in the area (the nearest of several handles), or null. */
  find(place, sight) {
    const there = this.handles()
      .map((handle) => ({ ...handle, at: sight.point(handle.point) }))
      .filter(({ at }) => at)
      .map((handle) => ({
        ...handle, far: Math.hypot(handle.at.x - place.x, handle.at.y - place.y),
      }))
      .filter(({ far }) => far <= HANDLE_REACH);
    there.sort((one, other) => one.far - other.far);
    return there[0] ?? null;
  }

  /** Start to drag a handle. `sightNow()` returns the projection of the frame that is shown. */
  grab({ axis, side, point }, place, sightNow) {
    const from = alongAxis(point, axis, sightNow().ray(place)) ?? 0;
    const move = (to) => {
      const along = alongAxis(point, axis, sightNow().ray(to));
      if (along === null || !this.box) return;
      const box = this.box.map((corner) => [...corner]);
      box[side][axis] = this.limited(point[axis] + along - from, axis, side);
      this.settings.set("crop", box);
    };
    return { move, end: () => {} };
  }

  limited(value, axis, side) {
    const thinnest = THINNEST * (this.cube[1][axis] - this.cube[0][axis]);
    const opposite = this.box[1 - side][axis];
    return side === 1
      ? Math.min(Math.max(value, opposite + thinnest), this.cube[1][axis])
      : Math.max(Math.min(value, opposite - thinnest), this.cube[0][axis]);
  }
}
