// Selection of occupancy grid cells, and grid updates with new density estimates.

// Computes the largest estimate in each cell. Metal has an atomic maximum only for integers.
// Estimates are not negative, and the bits of nonnegative floats, compared as integers, have the
// same order as the floats. There is one thread per estimate, and peaks are initialized to zero.
template <typename Cells, typename Estimates, typename Peaks>
METAL_FUNC void occupancy_splat(
    uint3 thread_index, int count, Cells cells, Estimates estimates, Peaks peaks) {
  const uint i = thread_index.x;
  if (i >= uint(count)) return;
  atomic_fetch_max_explicit(
      &peaks[cells[i]], as_type<uint>(float(estimates[i])), memory_order_relaxed);
}

// Computes one bit per cell: whether its value exceeds threshold[0]. Each thread writes the word of
// one brick.
template <typename Values, typename Threshold, typename Bits>
METAL_FUNC void occupancy_pack(
    uint3 thread_index, int cells, Values values, Threshold threshold, Bits bits) {
  const uint word = thread_index.x;
  if (BRICK_CELLS * word >= uint(cells)) return;
  uint packed = 0;
  for (uint bit = 0; bit < BRICK_CELLS; ++bit) {
    packed |= uint(values[BRICK_CELLS * word + bit] > threshold[0]) << bit;
  }
  bits[word] = packed;
}

// Finds the set bit with the rank floor(draws[i] n / 2^32), where n is the number of set bits. If
// no bit is set, the result is 0. There are words[0] words, and ends[word] is the number of set
// bits in this word and all words before it. The rank is an integer, because a float cannot
// represent neighboring ranks above 2^24. There is one thread per draw.
template <typename Bits, typename Ends, typename Draws, typename Words, typename Cells>
METAL_FUNC void occupancy_choose(
    uint3 thread_index, int count, Bits bits, Ends ends, Draws draws, Words words, Cells cells) {
  const uint i = thread_index.x;
  if (i >= uint(count)) return;
  const int total = ends[words[0] - 1];
  // If no bit is set, the rank is -1, and the search finds the first word.
  const int rank = total > 0 ? int(mulhi(uint(draws[i]), uint(total))) : -1;
  int low = 0, high = words[0] - 1;  // range of the word to find
  while (low < high) {
    const int middle = (low + high) / 2;
    if (ends[middle] > rank) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  int before = low > 0 ? rank - ends[low - 1] : rank;  // set bits in it before the wanted one
  int bit = 0;
  for (uint word = bits[low]; total > 0 && ((word >> bit) % 2 == 0 || before > 0); ++bit) {
    before -= int((word >> bit) % 2);
  }
  cells[i] = BRICK_CELLS * low + bit;
}
