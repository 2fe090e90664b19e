/**
 * How the frame that is shown sees the scene: places on the area, in CSS pixels, of scene points.
 *
 * It holds the pose and lens of the picture that is shown, not those asked for since, so that what
 * is drawn over the picture agrees with it.
 */

import { projectLine, projectPoint, rayThrough } from "../picture/projection.js";

export class Sight {
  /** `rectangle`: where the frame lies on the area. `near`: the depth that lines are cut at. */
  constructor(pose, lens, rectangle, near) {
    Object.assign(this, { pose, lens, rectangle, near });
  }

  place([x, y]) {
    const { left, top, width, height } = this.rectangle;
    return { x: left + x * width, y: top + y * height };
  }

  /** {x, y, depth} of a scene point, or null if it is behind. */
  point(point) {
    const seen = projectPoint(this.pose, this.lens, point, this.near);
    return seen && { ...this.place(seen), depth: seen[2] };
  }

  /** Both ends of the part of a scene line that is in front, or null. */
  line(first, second) {
    const ends = projectLine(this.pose, this.lens, first, second, this.near);
    return ends && ends.map((end) => this.place(end));
  }

  /** The ray through a place on the area. */
  ray({ x, y }) {
    const { left, top, width, height } = this.rectangle;
    return rayThrough(this.pose, this.lens, (x - left) / width, (y - top) / height);
  }

  /** Where the camera stands. */
  get eye() {
    return [this.pose[3], this.pose[7], this.pose[11]];
  }
}

/** Add the visible parts of scene lines to a canvas's path. */
export function traceLines(context, sight, lines) {
  for (const [first, second] of lines) {
    const ends = sight.line(first, second);
    if (!ends) continue;
    context.moveTo(ends[0].x, ends[0].y);
    context.lineTo(ends[1].x, ends[1].y);
  }
}

/** Stroke what has been traced, with a dark rim so that it shows on any ground. */
export function strokeRimmed(context, colour, width) {
  context.lineWidth = width + 1.6;
  context.strokeStyle = "rgb(0 0 0 / 35%)";
  context.stroke();
  context.lineWidth = width;
  context.strokeStyle = colour;
  context.stroke();
}

/** Distance between two scene points. */
export function distanceOf(one, other) {
  return Math.hypot(...one.map((value, axis) => value - other[axis]));
}
