#include "tile_block.h"

// Tiles on GPUs, where each is spread over a simdgroup; needs tile_any.

typedef TileBlock TileRows;

// Chooses the threadgroup's next tiles, from row `next` on, which moves on by `stride`: the first
// that hold a row that is wanted. leave_out(row) is called for those before; false if none is left.
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
