#include "bounds.h"

// The coordinates in [0, 1]^3 of positions in a cube with contracted far space, and their gradient.
// One thread a point. sides = [extent, inner], of the scene's cube and of the inner one.

template <typename Rows>
METAL_FUNC float3 contract_row(Rows rows, uint row) {
  return float3{rows[3 * row], rows[3 * row + 1], rows[3 * row + 2]};
}

template <typename Positions, typename Sides, typename Units>
METAL_FUNC void contract_forward(
    uint3 thread_index, int points, Positions positions, Sides sides, Units units) {
  const uint row = thread_index.x;
  if (row >= uint(points)) return;
  const float3 unit = bounds_unit(contract_row(positions, row), sides[0], sides[1]);
  units[3 * row] = unit.x;
  units[3 * row + 1] = unit.y;
  units[3 * row + 2] = unit.z;
}

template <typename Positions, typename Sides, typename Gradient, typename PositionGradient>
METAL_FUNC void contract_gradient(
    uint3 thread_index, int points, Positions positions, Sides sides, Gradient gradient,
    PositionGradient position_gradient) {
  const uint row = thread_index.x;
  if (row >= uint(points)) return;
  const float3 moved = bounds_unit_gradient(
      contract_row(positions, row), contract_row(gradient, row), sides[0], sides[1]);
  position_gradient[3 * row] = moved.x;
  position_gradient[3 * row + 1] = moved.y;
  position_gradient[3 * row + 2] = moved.z;
}
