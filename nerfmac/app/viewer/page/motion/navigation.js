/**
 * Moves of the camera with pointer and keys: pure functions from view to view, without imports.
 *
 * A view is {pose, center, up, fov}:
 *
 *     pose    camera-to-scene matrix [R | t], 12 numbers row by row; the camera looks along -z, y up
 *     center  scene position that the camera orbits, straight ahead of it
 *     up      up direction of the scene, a unit vector
 *     fov     vertical field of view, in radians
 *
 * Pointer motion is relative to the image height, with x right and y down. The scene follows the
 * pointer. For finite arguments, the results are the same as in nerfmac.app.paths.view.View.
 */

const STEEPEST = (89 * Math.PI) / 180; // maximum elevation of an orbiting view in radians
const CLOSEST = 0.1; // minimum distance to the center in scene units
const FARTHEST = 1e4; // maximum distance from the scene center in scene units
const WALK_SPEED = 0.6; // fraction of the distance to the center, per second

const dot = (one, other) => one[0] * other[0] + one[1] * other[1] + one[2] * other[2];
const lengthOf = (vector) => Math.sqrt(dot(vector, vector));
const scaled = (factor, vector) => vector.map((value) => factor * value);
const plus = (one, other) => one.map((value, axis) => value + other[axis]);
const minus = (one, other) => one.map((value, axis) => value - other[axis]);
const cross = ([a, b, c], [d, e, f]) => [b * f - c * e, c * d - a * f, a * e - b * d];
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

/** An axis of the camera in scene coordinates: 0 is right, 1 is up, 2 is backward. */
const axisOf = (pose, axis) => [pose[axis], pose[4 + axis], pose[8 + axis]];
const eyeOfPose = (pose) => [pose[3], pose[7], pose[11]];
const poseOf = (axes, eye) => [0, 1, 2].flatMap(
  (row) => [axes[0][row], axes[1][row], axes[2][row], eye[row]],
);
const axesOf = (pose) => [0, 1, 2].map((axis) => axisOf(pose, axis));

/** Distance from the camera to the center in scene units, at least CLOSEST. */
export function centerDistance({ pose, center }) {
  return Math.max(lengthOf(minus(center, eyeOfPose(pose))), CLOSEST);
}

/** The lens [fx / w, fy / h, cx / w, cy / h] of the view for an image of `width` x `height`. */
export function viewLens({ fov }, width, height) {
  const focal = 0.5 / Math.tan(0.5 * fov);
  return [(focal * height) / width, focal, 0.5, 0.5];
}

/** Rotate around the center by pi radians per image height. The horizon becomes level. */
export function orbitView(view, right, down) {
  const { pose, center, up } = view;
  const { heading, elevation } = directionOf(view, axisOf(pose, 2), Math.cos(STEEPEST));
  const angle = -Math.PI * right;
  const turned = plus(
    scaled(Math.cos(angle), heading), scaled(Math.sin(angle), cross(up, heading)),
  );
  const tilted = clamp(elevation + Math.PI * clamp(down, -1, 1), -STEEPEST, STEEPEST);
  const axes = levelAxes(up, turned, tilted);
  // The center stays at the same pixel.
  const offset = minus(eyeOfPose(pose), center);
  const local = axesOf(pose).map((axis) => dot(axis, offset));
  const eye = axes.reduce((sum, axis, index) => plus(sum, scaled(local[index], axis)), center);
  return { ...view, pose: poseOf(axes, eye) };
}

/** Move sideways. Points at the distance of the center follow the pointer. */
export function panView(view, right, down) {
  const height = 2 * centerDistance(view) * Math.tan(0.5 * view.fov);
  return movedView(view, [-right * height, down * height, 0]);
}

/**
 * Multiply the distance to the center by exp(logFactor). At the distance CLOSEST, the camera
 * continues to move, and the center moves with it.
 */
export function dollyView(view, logFactor) {
  const distance = centerDistance(view);
  const wanted = distance * Math.exp(Math.min(logFactor, Math.log(FARTHEST / distance)));
  const moved = movedView(view, [0, 0, distance - wanted]);
  if (wanted >= CLOSEST) return { ...moved, center: view.center };
  const { pose } = moved;
  return { ...moved, center: minus(eyeOfPose(pose), scaled(CLOSEST, axisOf(pose, 2))) };
}

/** Move to the right, up, and forward along the camera axes, for the given times in seconds. */
export function walkView(view, right, up, forward) {
  const speed = WALK_SPEED * centerDistance(view);
  return movedView(view, scaled(speed, [right, up, forward]));
}

/** Rotate towards a scene position, make it the center, and make the horizon level. */
export function lookAt(view, point) {
  const eye = eyeOfPose(view.pose);
  const back = minus(eye, point);
  const distance = lengthOf(back);
  if (!(distance > 1e-9)) return view;
  const center = distance <= FARTHEST ? point : minus(eye, scaled(FARTHEST / distance, back));
  const { heading, elevation } = directionOf(view, back, 1e-9);
  return { ...view, pose: poseOf(levelAxes(view.up, heading, elevation), eye), center };
}

/** Apply a motion {orbit, pan: [x, y], dolly, walk: [right, up, forward] in seconds}. */
export function travelView(view, { orbit, pan, dolly, walk }) {
  let moved = view;
  if (orbit.some(Boolean)) moved = orbitView(moved, ...orbit);
  if (pan.some(Boolean)) moved = panView(moved, ...pan);
  if (dolly) moved = dollyView(moved, dolly);
  if (walk.some(Boolean)) moved = walkView(moved, ...walk);
  return moved;
}

/** Move camera and center by [right, up, forward] scene units, within FARTHEST. */
function movedView(view, along) {
  const { pose, center } = view;
  const before = eyeOfPose(pose);
  const limit = Math.max(FARTHEST, lengthOf(before));
  const axes = axesOf(pose);
  const signs = [1, 1, -1];
  let eye = before;
  for (const axis of [0, 1, 2]) {
    eye = plus(eye, scaled(signs[axis] * clamp(along[axis], -2 * limit, 2 * limit), axes[axis]));
  }
  eye = scaled(Math.min(1, limit / Math.max(lengthOf(eye), CLOSEST)), eye);
  return { ...view, pose: poseOf(axes, eye), center: plus(center, minus(eye, before)) };
}

/**
 * Horizontal unit vector and elevation of `back`, a vector from the scene to the camera. If `back`
 * is vertical, its horizontal direction is ill-defined and is derived from the camera axes.
 */
function directionOf({ pose, up }, back, minSlope) {
  const height = dot(back, up);
  const level = minus(back, scaled(height, up));
  const length = lengthOf(level);
  if (length > minSlope * Math.abs(height)) {
    return { heading: scaled(1 / length, level), elevation: Math.atan2(height, length) };
  }
  const own = minus(axisOf(pose, 2), scaled(dot(axisOf(pose, 2), up), up));
  const aside = cross(axisOf(pose, 0), up);
  const heading = dot(own, own) >= dot(aside, aside) ? own : aside;
  return {
    heading: scaled(1 / lengthOf(heading), heading),
    elevation: height < 0 ? -0.5 * Math.PI : 0.5 * Math.PI,
  };
}

/** Axes, without roll, of a camera with a backward axis towards `heading` at `elevation`. */
function levelAxes(up, heading, elevation) {
  const back = plus(
    scaled(Math.cos(elevation), heading), scaled(Math.sin(elevation), up),
  );
  const right = cross(up, heading);
  return [right, cross(back, right), back];
}
