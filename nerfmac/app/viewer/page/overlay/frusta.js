/** The training cameras as frusta over the image. Near frusta have stronger lines. */

import { imageCorners } from "../image/projection.js";
import { distanceOf, strokeRimmed, traceLines } from "./sight.js";

const CAMERA_REACH = 6; // maximum distance from the pointer to a line that it hits, CSS pixels
const WEAKENING = 0.75; // reduction of the line strength for the farthest camera, as a fraction
const CAMERA_COLOR = "#6cb6ff";
const CAMERA_HOVERED = "#ffffff";

/** Return the eight lines of a camera frustum with the image plane at distance `size`. */
export function frustumLines(pose, lens, size) {
  const eye = [pose[3], pose[7], pose[11]];
  const corners = imageCorners(pose, lens, size);
  return corners.flatMap((corner, index) => [[eye, corner], [corner, corners[(index + 1) % 4]]]);
}

export class Frusta {
  constructor(link) {
    this.cameras = [];
    this.names = [];
    this.size = 1; // depth of a frustum in scene units
    this.isShown = false;
    this.hovered = null; // index of the camera under the pointer
    link.on("cameras", ({ cameras, names }) => Object.assign(this, { cameras, names }));
    link.on("state", ({ scene }) => (this.size = scene.frustum));
  }

  /** {index, far, lines, strength} of each camera that is not close to the camera of the view. */
  visible(sight) {
    const { size } = this;
    const all = this.cameras.map(({ pose, lens }, index) => ({
      index, far: distanceOf(eyeOf(pose), sight.eye), lines: frustumLines(pose, lens, size),
    }));
    const others = all.filter(({ far }) => far > 1.5 * size);
    const far = others.map((camera) => camera.far);
    const [least, most] = [Math.min(...far), Math.max(...far)];
    const strengthOf = (camera) => 1 - WEAKENING * ((camera.far - least) / (most - least || 1));
    return others.map((camera) => ({ ...camera, strength: strengthOf(camera) }));
  }

  get isBlank() {
    return !this.isShown || this.cameras.length === 0;
  }

  draw(context, sight) {
    for (const { index, lines, strength } of this.visible(sight)) {
      const isHovered = index === this.hovered;
      context.beginPath();
      traceLines(context, sight, lines);
      context.globalAlpha = isHovered ? 1 : strength;
      strokeRimmed(context, isHovered ? CAMERA_HOVERED : CAMERA_COLOR, isHovered ? 2 : 1);
    }
    context.globalAlpha = 1;
  }

  /** Return the index of the nearest training camera at a position in the area, or null. */
  find(place, sight) {
    if (!this.isShown) return null;
    const there = this.visible(sight).filter(({ lines }) => {
      const shown = lines.map(([first, second]) => sight.line(first, second)).filter(Boolean);
      return shown.some((ends) => distanceToLine(place, ends) <= CAMERA_REACH);
    });
    there.sort((one, other) => one.far - other.far);
    return there[0]?.index ?? null;
  }

  /** The index of the training camera nearest to `pose`, or null without training cameras. */
  nearest(pose) {
    const far = this.cameras.map((camera) => distanceOf(eyeOf(camera.pose), eyeOf(pose)));
    return far.length > 0 ? far.indexOf(Math.min(...far)) : null;
  }
}

function eyeOf(pose) {
  return [pose[3], pose[7], pose[11]];
}

function distanceToLine(place, [first, second]) {
  const [across, down] = [second.x - first.x, second.y - first.y];
  const square = across ** 2 + down ** 2;
  const along = ((place.x - first.x) * across + (place.y - first.y) * down) / (square || 1);
  const at = Math.min(1, Math.max(0, along));
  return Math.hypot(place.x - first.x - at * across, place.y - first.y - at * down);
}
