// Slots of packed samples. Each slot has a position, a distance, a width, and a ray.

// Marks a slot as unused.
template <typename Positions, typename Distances, typename Widths, typename RayOf>
METAL_FUNC void slots_clear(
    int slot, Positions positions, Distances distances, Widths widths, RayOf ray_of) {
  for (int axis = 0; axis < 3; ++axis) positions[3 * slot + axis] = 0.0f;
  distances[slot] = 0.0f;
  widths[slot] = 0.0f;
  ray_of[slot] = 0;
}
