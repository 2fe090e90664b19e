// The space that is trained, a cube of side `extent` around (0.5, 0.5, 0.5), and its map to the
// coordinates that encodings read; nerfmac/geometry/bounds.py has the same, and says what the
// contraction of far space is. Another map of space changes bounds_unit and its gradient.

constant constexpr float bounds_centre = 0.5f;

// From the centre to a position, in scene units.
METAL_FUNC float3 bounds_offset(float3 position) {
  return position - float3{bounds_centre, bounds_centre, bounds_centre};
}

// The largest coordinate of an offset.
METAL_FUNC float bounds_farthest(float3 offset) {
  return max(max(abs(offset.x), abs(offset.y)), abs(offset.z));
}

// Cuts the part [enter, leave] of a ray down to what is between the cube's two faces of one axis.
METAL_FUNC void bounds_clip(
    float origin, float slope, float extent, thread float& enter, thread float& leave) {
  const float half_side = 0.5f * extent, offset = origin - bounds_centre;
  if (abs(slope) < 1e-9f) {
    // A ray parallel to the faces is between them everywhere or nowhere.
    if (abs(offset) > half_side) leave = -1.0f;
  } else {
    const float a = (-half_side - offset) / slope, b = (half_side - offset) / slope;
    enter = max(enter, min(a, b));
    leave = min(leave, max(a, b));
  }
}

// The side of the cube that encodings see.
METAL_FUNC float bounds_encoded_side(float extent, float inner) {
  return inner < extent ? inner * (2.0f - inner / extent) : extent;
}

// The coordinates in [0, 1]^3 of a position. What is outside the cube of side `inner` is
// contracted; nothing is if `inner` is no less than `extent`.
METAL_FUNC float3 bounds_unit(float3 position, float extent, float inner) {
  float3 offset = bounds_offset(position);
  if (inner < extent) {
    const float ratio = max(bounds_farthest(offset) / (0.5f * inner), 1.0f);
    offset = offset * ((2.0f - 1.0f / ratio) / ratio);
  }
  const float side = bounds_encoded_side(extent, inner);
  return float3{offset.x / side + 0.5f, offset.y / side + 0.5f, offset.z / side + 0.5f};
}

// The gradient at a position, from the `gradient` at its coordinates in [0, 1]^3. Beyond the inner
// cube the factor (2 - 1 / ratio) / ratio falls with the largest coordinate.
METAL_FUNC float3 bounds_unit_gradient(
    float3 position, float3 gradient, float extent, float inner) {
  const float side = bounds_encoded_side(extent, inner), half_inner = 0.5f * inner;
  const float3 offset = bounds_offset(position);
  const float ratio = bounds_farthest(offset) / half_inner;
  const float factor = inner < extent && ratio > 1.0f ? (2.0f - 1.0f / ratio) / ratio : 1.0f;
  float3 moved = gradient * (factor / side);
  if (inner < extent && ratio > 1.0f) {
    const float along =
        gradient.x * offset.x + gradient.y * offset.y + gradient.z * offset.z;
    const float fall = 2.0f * (1.0f - ratio) / (ratio * ratio * ratio * half_inner * side) * along;
    const float x = abs(offset.x), y = abs(offset.y), z = abs(offset.z);
    if (max(x, y) <= z) {
      moved.z += offset.z < 0.0f ? -fall : fall;
    } else if (x <= y) {
      moved.y += offset.y < 0.0f ? -fall : fall;
    } else {
      moved.x += offset.x < 0.0f ? -fall : fall;
    }
  }
  return moved;
}
