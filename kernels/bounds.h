// The scene cube, with side length `extent` and center (0.5, 0.5, 0.5), as in
// nerfmac/geometry/bounds.py.

// Returns the offset from the center to a position, in scene units.
METAL_FUNC float3 bounds_offset(float3 position) {
  return position - float3{SCENE_CENTER, SCENE_CENTER, SCENE_CENTER};
}

// Returns the largest absolute coordinate of an offset.
METAL_FUNC float bounds_farthest(float3 offset) {
  return max(max(abs(offset.x), abs(offset.y)), abs(offset.z));
}

// Clips the segment [enter, leave] of a ray to the slab between the two cube faces of one axis.
METAL_FUNC void bounds_clip(
    float origin, float slope, float extent, thread float& enter, thread float& leave) {
  const float half_side = 0.5f * extent, offset = origin - SCENE_CENTER;
  if (abs(slope) < PARALLEL_SLOPE) {
    // A ray parallel to the faces is either entirely between them or entirely outside.
    if (abs(offset) > half_side) leave = -1.0f;
  } else {
    const float a = (-half_side - offset) / slope, b = (half_side - offset) / slope;
    enter = max(enter, min(a, b));
    leave = min(leave, max(a, b));
  }
}
