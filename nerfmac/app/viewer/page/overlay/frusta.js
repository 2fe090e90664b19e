/**
 * The training cameras as frusta over the image, with their photos. Near frusta have stronger lines.
 * The color of a frustum depends on the training PSNR of its view, relative to the median.
 */

import { decodeJpeg } from "../image/image.js";
import { imageCorners } from "../image/projection.js";
import { distanceOf, strokeRimmed, traceLines } from "./sight.js";

const CAMERA_REACH = 6; // maximum distance from the pointer to a line that it hits, CSS pixels
const WEAKENING = 0.75; // reduction of the line strength for the farthest camera, as a fraction
const CAMERA_COLOR = "#6cb6ff"; // of a camera without a known error
const GOOD = 205; // hue of a view with the median PSNR, in degrees
const WORST = 6; // dB below the median at which a frustum is red
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
    this.psnr = []; // training PSNR of the views in dB, or null
    this.photos = []; // ImageBitmap of each photo that has arrived
    this.wantsPhotos = true;
    this.onChange = () => {};
    link.on("errors", ({ psnr }) => {
      this.psnr = psnr;
      this.onChange();
    });
    link.on("thumbnails", ({ first }, jpegs) => this.receive(first, jpegs));
    link.on("live", () => (this.wantsPhotos = true));
    this.link = link;
    link.on("cameras", ({ cameras, names }) => Object.assign(this, { cameras, names }));
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

  /** How bad a view is: 0 at the median PSNR or above, 1 at WORST dB below it, null if unknown. */
  badness(index) {
    const psnr = this.psnr[index];
    if (!Number.isFinite(psnr)) return null;
    const known = this.psnr.filter(Number.isFinite).sort((one, other) => one - other);
    const below = known[Math.floor(known.length / 2)] - psnr;
    return Math.min(Math.max(below / WORST, 0), 1);
  }

  colorOf(index) {
    const badness = this.badness(index);
    return badness === null ? CAMERA_COLOR : `hsl(${(GOOD * (1 - badness)).toFixed(0)} 90% 65%)`;
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
    // Near frusta are drawn over far frusta, and those of bad views over all others.
    const isBad = ({ index }) => this.badness(index) > 0.5;
    const visible = this.visible(sight).sort(
      (one, other) => isBad(one) - isBad(other) || other.far - one.far,
    );
    for (const { index, lines, corners, strength } of visible) {
      const isHovered = index === this.hovered;
      context.globalAlpha = isHovered ? 1 : Math.max(strength, this.badness(index));
      drawPhoto(context, sight, this.photos[index], corners);
      context.beginPath();
      traceLines(context, sight, lines);
      strokeRimmed(context, isHovered ? CAMERA_HOVERED : this.colorOf(index), isHovered ? 2 : 1);
    }
    context.globalAlpha = 1;
  }

  /** Return the index of the nearest training camera at a position in the area, or null. */
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

  /** The index of the training camera nearest to `pose`, or null without training cameras. */
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
