/**
 * Projection from the scene to the image and back, with the conventions of the kernel.
 *
 * A pose consists of 12 numbers: the camera-to-scene matrix [R | t], row by row. A camera looks
 * along its -z axis, and its y axis points up. A lens is [fx / w, fy / h, cx / w, cy / h]. An image
 * position (x, y) is relative to the image width and height, from the top left corner:
 *
 *     (a, b, c) = R^T (point - t),   x = cx + fx a / -c,   y = cy - fy b / -c,   depth = -c
 */

/** Convert a scene point to camera axes. */
export function toCamera(pose, point) {
  const [x, y, z] = [point[0] - pose[3], point[1] - pose[7], point[2] - pose[11]];
  return [0, 1, 2].map((axis) => pose[axis] * x + pose[4 + axis] * y + pose[8 + axis] * z);
}

/** Convert a point from camera axes to scene coordinates. */
export function toScene(pose, [a, b, c]) {
  const along = (row) => pose[row] * a + pose[row + 1] * b + pose[row + 2] * c + pose[row + 3];
  return [along(0), along(4), along(8)];
}

/** The image position of a point in camera axes. The point must be in front of the camera. */
export function toImage(lens, [a, b, c]) {
  return [lens[0] * (a / -c) + lens[2], lens[3] - lens[1] * (b / -c)];
}

/** Return [x, y, depth] of a scene point, or null if its depth is less than `near`. */
export function projectPoint(pose, lens, point, near) {
  const seen = toCamera(pose, point);
  if (-seen[2] < near) return null;
  return [...toImage(lens, seen), -seen[2]];
}

/** Return the part of a line in camera axes with a depth of at least `near`, or null. */
export function clipLine(first, second, near) {
  const [one, two] = [-first[2] - near, -second[2] - near];
  if (one < 0 && two < 0) return null;
  if (one >= 0 && two >= 0) return [first, second];
  const at = one / (one - two);
  const edge = first.map((value, axis) => value + at * (second[axis] - value));
  return one < 0 ? [edge, second] : [first, edge];
}

/** Both ends of a scene line in the image, clipped at depth `near`, or null if it is invisible. */
export function projectLine(pose, lens, first, second, near) {
  const line = clipLine(toCamera(pose, first), toCamera(pose, second), near);
  return line && line.map((end) => toImage(lens, end));
}

/** Return the ray through an image position: the camera position, and a direction with depth 1. */
export function rayThrough(pose, lens, x, y) {
  const ahead = toScene(pose, [(x - lens[2]) / lens[0], (lens[3] - y) / lens[1], -1]);
  const origin = [pose[3], pose[7], pose[11]];
  return { origin, direction: ahead.map((value, axis) => value - origin[axis]) };
}

/**
 * Position of the point on a line that is closest to a ray, as a distance from `point` along an
 * axis (0, 1, 2), or null if the line and the ray are parallel.
 */
export function alongAxis(point, axis, { origin, direction }) {
  const offset = origin.map((value, other) => value - point[other]);
  const dot = (one, two) => one[0] * two[0] + one[1] * two[1] + one[2] * two[2];
  const square = dot(direction, direction);
  const across = square - direction[axis] ** 2;
  if (across < 1e-3 * square) return null;
  return (offset[axis] * square - direction[axis] * dot(offset, direction)) / across;
}

/** The corners of the image plane at depth `size` of a camera, clockwise from the top left. */
export function imageCorners(pose, lens, size) {
  return [[0, 0], [1, 0], [1, 1], [0, 1]].map(([x, y]) => toScene(pose, [
    (size * (x - lens[2])) / lens[0], (size * (lens[3] - y)) / lens[1], -size,
  ]));
}

/**
 * The largest rectangle with the aspect ratio of an image that fits in an area, centered. If the
 * aspect ratios of image and area differ only by the rounding of a small frame to whole pixels, the
 * rectangle is the whole area.
 */
export function fitRectangle(areaWidth, areaHeight, width, height) {
  const ratio = (width * areaHeight) / (height * areaWidth);
  if (Math.abs(ratio - 1) <= 1 / Math.min(width, height)) {
    return { left: 0, top: 0, width: areaWidth, height: areaHeight };
  }
  const scale = Math.min(areaWidth / width, areaHeight / height);
  const [wide, high] = [width * scale, height * scale];
  return { left: (areaWidth - wide) / 2, top: (areaHeight - high) / 2, width: wide, height: high };
}
