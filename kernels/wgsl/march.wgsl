// Marching a ray through the occupancy grid for rendering; kernels/march.metal in WGSL. Samples are
// in the middle of their intervals.

struct MarchSettings {
  extent: f32,
  near: f32,
  step: f32,
  cone: f32,
  growth: f32,  // log(1 + cone)
  resolution: i32,
  cascades: i32,
  padding: i32,
}

@group(0) @binding(1) var<uniform> march: MarchSettings;

// Number of steps, as a real number, up to a distance, and the inverse function.
fn march_number(distance: f32) -> f32 {
  if (march.cone * distance <= march.step) { return distance / march.step; }
  let steps = log(march.cone * distance / march.step);
  return (1.0 + steps * (march.cone / march.growth)) / march.cone;
}

fn march_distance(number: f32) -> f32 {
  if (march.cone * number <= 1.0) { return number * march.step; }
  return march.step / march.cone * exp((march.cone * number - 1.0) * (march.growth / march.cone));
}

struct MarchRay {
  origin: vec3<f32>,
  direction: vec3<f32>,
  inverse: vec3<f32>,  // of the direction
  first: f32,          // march_number of where interval 0 begins
  intervals: i32,      // how many intervals have their sample inside the scene's cube
}

fn march_ray(origin: vec3<f32>, direction: vec3<f32>) -> MarchRay {
  var ray: MarchRay;
  ray.origin = origin;
  ray.direction = direction;
  // If the ray is parallel to the faces of an axis, this is so large that it never reaches them.
  ray.inverse = select(
    vec3(FAR_DISTANCE), 1.0 / direction, abs(direction) > vec3(PARALLEL_SLOPE));
  var span = vec2(march.near, FAR_DISTANCE);
  for (var axis = 0; axis < 3; axis++) {
    span = bounds_clip(origin[axis], direction[axis], span);
  }
  ray.first = march_number(span.x);
  if (span.y > span.x) {
    ray.intervals = i32(ceil(march_number(span.y) - ray.first - 0.5));
  }
  return ray;
}

struct MarchProbe {
  distance: f32,    // of the interval's sample
  is_sample: bool,  // whether the sample is in an occupied cell
  next: i32,        // the first interval after this one that may have a sample
}

fn march_probe(ray: MarchRay, k: i32) -> MarchProbe {
  var probe: MarchProbe;
  probe.distance = march_distance(ray.first + 0.5 + f32(k));
  probe.is_sample = false;
  probe.next = k + 1;
  let cell = occupancy_cell(ray.origin + ray.direction * probe.distance);
  if (cell.index < 0) { return probe; }
  let number = u32(cell.index);
  let word = bits[number / BRICK_CELLS];
  probe.is_sample = ((word >> (number % BRICK_CELLS)) & 1) == 1;
  if (probe.is_sample) { return probe; }
  // Leave the empty cell, or its whole brick if that is empty: the nearest of three faces ahead.
  let side = select(vec3(1.0), vec3(4.0, 4.0, 2.0), word == 0);
  let face = (floor(cell.place / side) + select(vec3(0.0), vec3(1.0), ray.inverse > vec3(0.0)))
    * side;
  let ahead = (face - cell.place) * ray.inverse;
  let reached = probe.distance + min(min(ahead.x, ahead.y), ahead.z) * cell.side;
  // Stop 0.001 steps early rather than late: a sample on the face belongs to the next cell.
  let strides = march_number(reached) - ray.first - 0.5 - f32(k);
  probe.next = k + max(1, i32(ceil(strides - 1e-3)));
  return probe;
}
