#include "tile_block.h"

// Tiles on GPUs, each distributed over a simdgroup; requires tile_any.

typedef TileBlock TileRows;

// Chooses the next tiles of the threadgroup, from row `next` on: the first ones with a wanted row.
// `next` advances by `stride`. leave_out(row) is called for skipped rows. False if no row is left.
template <typename Wanted, typename LeaveOut, typename Space>
METAL_FUNC bool tile_choose(uint local, thread int& next, int end, int stride, Wanted wanted,
                            LeaveOut leave_out, thread TileRows& rows, Space space) {
  while (next < end) {
    rows.first = next + int(local / 32) * 16;
    rows.count = min(end - rows.first, 16);
    next += stride;
    const int row = int(local % 32);
    const bool is_row = row < rows.count;
    if (tile_any(local, is_row && wanted(rows[row]), space)) return true;
    if (is_row) leave_out(rows[row]);
  }
  return false;
}
