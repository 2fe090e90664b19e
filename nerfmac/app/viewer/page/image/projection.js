/**
 * From the scene to the image and back, with the kernel's conventions.
 *
 * A pose is 12 numbers, the camera-to-scene matrix [R | t] row by row; a camera looks along its -z,
 * y up. A lens is [fx / w, fy / h, cx / w, cy / h]. An image position is (x, y) in units of the
 * image's width and height, from its top left corner:
 *
 *     (a, b, c) = R^T (point - t),   x = cx + fx a / -c,   y = cy - fy b / -c,   depth = -c
 */

/** Convert a scene point to the camera's axes. */
export function toCamera(pose, point) {
  const [x, y, z] = [point[0] - pose[3], point[1] - pose[7], point[2] - pose[11]];
  return [0, 1, 2].map((axis) => pose[axis] * x + pose[4 + axis] * y + pose[8 + axis] * z);
}

/** Convert a point from the camera's axes to the scene's. */
export function toScene(pose, [a, b, c]) {
  const along = (row) => pose[row] * a + pose[row + 1] * b + pose[row + 2] * c + pose[row + 3];
  return [along(0), along(4), along(8)];
}

/** The image position of a point in camera axes. The point must be in front of the camera. */
export function toImage(lens, [a, b, c]) {
  return [lens[0] * (a / -c) + lens[2], lens[3] - lens[1] * (b / -c)];
}

/** [x, y, depth] of a scene point, or null if it is not in front by at least `near`. */
export function projectPoint(pose, lens, point, near) {
  const seen = toCamera(pose, point);
  if (-seen[2] < near) return null;
  return [...toImage(lens, seen), -seen[2]];
}

/** The part of a line, in the camera's axes, that is in front by at least `near`, or null. */
export function clipLine(first, second, near) {
  const [one, two] = [-first[2] - near, -second[2] - near];
  if (one < 0 && two < 0) return null;
  if (one >= 0 && two >= 0) return [first, second];
  const at = one / (one - two);
  const edge = first.map((value, axis) => value + at * (second[axis] - value));
  return one < 0 ? [edge, second] : [first, edge];
}

/** Both ends of a scene line in the image, cut at depth `near`; null if no part is visible. */
export function projectLine(pose, lens, first, second, near) {
  const line = clipLine(toCamera(pose, first), toCamera(pose, second), near);
  return line && line.map((end) => toImage(lens, end));
}

/** The ray through an image position: camera position, and a direction of depth 1. */
export function rayThrough(pose, lens, x, y) {
  const ahead = toScene(pose, [(x - lens[2]) / lens[0], (lens[3] - y) / lens[1], -1]);
  const origin = [pose[3], pose[7], pose[11]];
  return { origin, direction: ahead.map((value, axis) => value - origin[axis]) };
}

/**
 * Position of the point on a line that is closest to a ray, as a distance from `point` along an
 * axis (0, 1, 2); null if they are parallel.
 */
export function alongAxis(point, axis, { origin, direction }) {
  const offset = origin.map((value, other) => value - point[other]);
  const dot = (one, two) => one[0] * two[0] + one[1] * two[1] + one[2] * two[2];
  const square = dot(direction, direction);
  const across = square - direction[axis] ** 2;
  if (across < 1e-3 * square) return null;
  return (offset[axis] * square - direction[axis] * dot(offset, direction)) / across;
}

/** The image corners of a camera at distance `size` in front of it, clockwise from the top left. */
export function imageCorners(pose, lens, size) {
  return [[0, 0], [1, 0], [1, 1], [0, 1]].map(([x, y]) => toScene(pose, [
    (size * (x - lens[2])) / lens[0], (size * (lens[3] - y)) / lens[1], -size,
  ]));
}

/**
 * The largest rectangle of an image's aspect ratio, centered in an area. If both aspects are equal
 * up to rounding of a small frame's size to pixels, it is the whole area.
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
