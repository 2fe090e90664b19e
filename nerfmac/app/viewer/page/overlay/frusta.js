/**
 * The cameras of the photos as frusta over the image, with their photos. Near frusta have stronger
 * lines. The color of a frustum is that of its entry in the legend.
 */

import { make } from "../controls/controls.js";
import { decodeJpeg } from "../image/image.js";
import { imageCorners } from "../image/projection.js";
import { distanceOf, strokeRimmed, traceLines } from "./sight.js";

const CAMERA_REACH = 6; // maximum distance from the pointer to a line that it hits, CSS pixels
const WEAKENING = 0.5; // reduction of the line strength for the farthest camera, as a fraction
const COLORS = { false: "#6cb6ff", true: "#ffb454" }; // by whether a camera is held out
const MEANINGS = { false: "training photos", true: "held-out photos, not used for training" };
const SMALLEST = 10; // CSS pixels; photos of smaller frusta are not drawn
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
    this.photos = []; // ImageBitmap of each photo that has arrived
    this.wantsPhotos = true;
    this.onChange = () => {};
    this.legend = make("div", { class: "nerfmac-legend", hidden: "" });
    link.on("thumbnails", ({ first }, jpegs) => this.receive(first, jpegs));
    link.on("live", () => (this.wantsPhotos = true));
    this.link = link;
    link.on("cameras", ({ cameras, names }) => {
      Object.assign(this, { cameras, names });
      const kinds = [...new Set(cameras.map((camera) => Boolean(camera.is_held_out)))];
      this.legend.replaceChildren(...kinds.map((kind) => make(
        "span", { text: MEANINGS[kind], style: `--nerfmac-kind: ${COLORS[kind]}` },
      )));
    });
    link.on("state", ({ scene }) => (this.size = scene.frustum));
  }

  async receive(first, jpegs) {
    const bitmaps = await Promise.all(jpegs.map(decodeJpeg));
    bitmaps.forEach((bitmap, index) => (this.photos[first + index] = bitmap));
    this.onChange();
  }

  /** Request the photos when the frusta are shown for the first time. */
  request() {
    if (!this.wantsPhotos) return;
    this.wantsPhotos = false;
    this.link.send({ kind: "thumbnails" });
  }

  /** The name of a photo, and whether it is held out. */
  nameOf(index) {
    const kind = this.cameras[index].is_held_out ? " · held out" : "";
    return `${this.names[index] ?? `photo ${index + 1}`}${kind}`;
  }

  /** {index, far, corners, lines, strength} of each camera that is not close to the camera of the view. */
  visible(sight) {
    const { size } = this;
    const all = this.cameras.map(({ pose, lens }, index) => ({
      index, far: distanceOf(eyeOf(pose), sight.eye), lines: frustumLines(pose, lens, size),
      corners: imageCorners(pose, lens, size),
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
    this.request();
    // Near frusta are drawn over far frusta.
    const visible = this.visible(sight).sort((one, other) => other.far - one.far);
    for (const { index, lines, corners, strength } of visible) {
      const isHovered = index === this.hovered;
      const color = isHovered ? CAMERA_HOVERED : COLORS[Boolean(this.cameras[index].is_held_out)];
      context.globalAlpha = isHovered ? 1 : strength;
      drawPhoto(context, sight, this.photos[index], corners);
      context.beginPath();
      traceLines(context, sight, lines);
      strokeRimmed(context, color, isHovered ? 2 : 1);
    }
    context.globalAlpha = 1;
  }

  /** Whether the center of a frustum's image plane is on the image. */
  isAnyOn(sight) {
    const { left, top, width, height } = sight.rectangle;
    return this.visible(sight).some(({ corners }) => {
      const center = [0, 1, 2].map((axis) => (corners[0][axis] + corners[2][axis]) / 2);
      const at = sight.point(center);
      return at && at.x > left && at.x < left + width && at.y > top && at.y < top + height;
    });
  }

  /** Return the index of the nearest camera at a position in the area, or null. */
  find(place, sight) {
    if (!this.isShown) return null;
    const there = this.visible(sight).filter(({ lines, corners }) => {
      if (isInside(place, corners.map((corner) => sight.point(corner)))) return true;
      const shown = lines.map(([first, second]) => sight.line(first, second)).filter(Boolean);
      return shown.some((ends) => distanceToLine(place, ends) <= CAMERA_REACH);
    });
    there.sort((one, other) => one.far - other.far);
    return there[0]?.index ?? null;
  }

  /** The index of the camera nearest to `pose`, or null without cameras. */
  nearest(pose) {
    const far = this.cameras.map((camera) => distanceOf(eyeOf(camera.pose), eyeOf(pose)));
    return far.length > 0 ? far.indexOf(Math.min(...far)) : null;
  }
}

/** Return whether a position is inside a convex polygon; null corners are behind the camera. */
function isInside({ x, y }, corners) {
  if (corners.includes(null)) return false;
  const sides = corners.map((one, index) => {
    const other = corners[(index + 1) % corners.length];
    return (other.x - one.x) * (y - one.y) - (other.y - one.y) * (x - one.x);
  });
  return sides.every((side) => side > 0) || sides.every((side) => side < 0);
}

function eyeOf(pose) {
  return [pose[3], pose[7], pose[11]];
}

/** Draw a photo on the image plane of a frustum, without perspective within the photo. */
function drawPhoto(context, sight, photo, corners) {
  const [a, b, , d] = corners.map((corner) => sight.point(corner));
  if (!photo || !a || !b || !d) return;
  const [right, down] = [[b.x - a.x, b.y - a.y], [d.x - a.x, d.y - a.y]];
  if (Math.hypot(...right) < SMALLEST && Math.hypot(...down) < SMALLEST) return;
  context.save();
  const { width, height } = photo;
  context.transform(
    right[0] / width, right[1] / width, down[0] / height, down[1] / height, a.x, a.y,
  );
  context.drawImage(photo, 0, 0);
  context.restore();
}

function distanceToLine(place, [first, second]) {
  const [across, down] = [second.x - first.x, second.y - first.y];
  const square = across ** 2 + down ** 2;
  const along = ((place.x - first.x) * across + (place.y - first.y) * down) / (square || 1);
  const at = Math.min(1, Math.max(0, along));
  return Math.hypot(place.x - first.x - at * across, place.y - first.y - at * down);
}
