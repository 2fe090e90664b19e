// Folding new density estimates into the occupancy grid.

// The largest estimate that fell into each cell. Estimates are not negative, and such floats order
// like their bits: Metal has an atomic maximum for integers only. One thread an estimate; peaks
// start from zero.
template <typename Cells, typename Estimates, typename Peaks>
METAL_FUNC void occupancy_splat(
    uint3 thread_index, int count, Cells cells, Estimates estimates, Peaks peaks) {
  const uint i = thread_index.x;
  if (i >= uint(count)) return;
  atomic_fetch_max_explicit(
      &peaks[cells[i]], as_type<uint>(float(estimates[i])), memory_order_relaxed);
}

// One bit a cell: does its value exceed threshold[0]? One thread a word of 32 cells.
template <typename Values, typename Threshold, typename Bits>
METAL_FUNC void occupancy_pack(
    uint3 thread_index, int cells, Values values, Threshold threshold, Bits bits) {
  const uint word = thread_index.x;
  if (32 * word >= uint(cells)) return;
  uint packed = 0;
  for (uint bit = 0; bit < 32; ++bit) {
    packed |= uint(values[32 * word + bit] > threshold[0]) << bit;
  }
  bits[word] = packed;
}
