/**
 * Projection of scene points to the area, in CSS pixels, as in the frame that is shown.
 *
 * The projection uses the pose and the lens that the frame was rendered with, and not the latest
 * pose and lens, so that lines are aligned with the frame.
 */

import { projectLine, projectPoint, rayThrough } from "../image/projection.js";

export class Sight {
  /** `rectangle`: the position of the frame on the area. `near`: minimum depth of lines. */
  constructor(pose, lens, rectangle, near) {
    Object.assign(this, { pose, lens, rectangle, near });
  }

  place([x, y]) {
    const { left, top, width, height } = this.rectangle;
    return { x: left + x * width, y: top + y * height };
  }

  /** Return {x, y, depth} of a scene point; null if it is behind the camera. */
  point(point) {
    const seen = projectPoint(this.pose, this.lens, point, this.near);
    return seen && { ...this.place(seen), depth: seen[2] };
  }

  /** Both ends of a scene line, clipped to depths of at least `near`, or null if it is hidden. */
  line(first, second) {
    const ends = projectLine(this.pose, this.lens, first, second, this.near);
    return ends && ends.map((end) => this.place(end));
  }

  /** Return the ray through a position in the area. */
  ray({ x, y }) {
    const { left, top, width, height } = this.rectangle;
    return rayThrough(this.pose, this.lens, (x - left) / width, (y - top) / height);
  }

  /** The camera's position. */
  get eye() {
    return [this.pose[3], this.pose[7], this.pose[11]];
  }
}

/** Add the visible segments of scene lines to the current path of a canvas. */
export function traceLines(context, sight, lines) {
  for (const [first, second] of lines) {
    const ends = sight.line(first, second);
    if (!ends) continue;
    context.moveTo(ends[0].x, ends[0].y);
    context.lineTo(ends[1].x, ends[1].y);
  }
}

/** Stroke the current path with a dark outline, so that it is visible on any background. */
export function strokeRimmed(context, color, width) {
  context.lineWidth = width + 1.6;
  context.strokeStyle = "rgb(0 0 0 / 35%)";
  context.stroke();
  context.lineWidth = width;
  context.strokeStyle = color;
  context.stroke();
}

/** Distance between two scene points. */
export function distanceOf(one, other) {
  return Math.hypot(...one.map((value, axis) => value - other[axis]));
}
