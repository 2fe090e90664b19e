// The trained region, a cube of side `extent` around (0.5, 0.5, 0.5), and its map to the
// coordinates of the encoding; kernels/bounds.h in WGSL.

const bounds_center = vec3<f32>(SCENE_CENTER);

// Clips the ray segment [span.x, span.y] to the slab between the two cube faces of one axis.
fn bounds_clip(origin: f32, slope: f32, span: vec2<f32>) -> vec2<f32> {
  let half_side = 0.5 * march.extent;
  let offset = origin - SCENE_CENTER;
  if (abs(slope) < PARALLEL_SLOPE) {
    // A ray parallel to the faces is between them everywhere or nowhere.
    if (abs(offset) > half_side) { return vec2(span.x, -1.0); }
    return span;
  }
  let a = (-half_side - offset) / slope;
  let b = (half_side - offset) / slope;
  return vec2(max(span.x, min(a, b)), min(span.y, max(a, b)));
}

// The coordinates in [0, 1]^3 of a position.
fn bounds_unit(position: vec3<f32>) -> vec3<f32> {
  return (position - bounds_center) / march.extent + 0.5;
}
