#include "occupancy.h"

// Random points in occupancy grid cells, and grid updates with new density estimates.

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

// Counts the occupied cells of each brick, with one thread per word of bits.
template <typename Bits, typename Counts>
METAL_FUNC void occupancy_count(uint3 thread_index, int words, Bits bits, Counts counts) {
  const uint word = thread_index.x;
  if (word >= uint(words)) return;
  counts[word] = int(popcount(bits[word]));
}

// Returns a random item in [0, total) from stratum `i` of `strata` strata of equal size. The
// arithmetic is exact, because a float cannot represent neighboring items above 2^24.
METAL_FUNC uint occupancy_in_stratum(uint i, uint strata, uint draw, uint total) {
  return uint((ulong(i) * total + mulhi(draw, total)) / strata);
}

// Returns the cell of the set bit with the given rank, which is less than the number of set bits.
// ends[word] is the number of set bits in this word and all words before it.
template <typename Bits, typename Ends>
METAL_FUNC int occupancy_of_rank(Bits bits, Ends ends, int words, int rank) {
  int low = 0, high = words - 1;  // range of the word to find
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
  for (uint word = bits[low]; (word >> bit) % 2 == 0 || before > 0; ++bit) {
    before -= int((word >> bit) % 2);
  }
  return BRICK_CELLS * low + bit;
}

// Draws random points in cells. The first `evenly` points are in random cells of the grid, and the
// other points are in random occupied cells. Both groups are stratified, so their cells are sorted.
// If no cell is occupied, the points of the second group are in cell 0. There is one thread per
// point.
//
// settings = [evenly, resolution, words]. draws[i] has two random words: the first one selects the
// cell, and the bits of the second one are the position within the cell.
template <typename Bits, typename Ends, typename Draws, typename Settings, typename Cells,
          typename Positions>
METAL_FUNC void occupancy_points(
    uint3 thread_index, int count, Bits bits, Ends ends, Draws draws, Settings settings,
    Cells cells, Positions positions) {
  const uint i = thread_index.x;
  if (i >= uint(count)) return;
  const uint evenly = uint(settings[0]);
  const int resolution = settings[1], words = settings[2];
  const uint draw = draws[2 * i], within = draws[2 * i + 1];
  int cell = 0;
  if (i < evenly) {
    cell = int(occupancy_in_stratum(i, evenly, draw, uint(BRICK_CELLS * words)));
  } else if (ends[words - 1] > 0) {
    const uint rank = occupancy_in_stratum(
        i - evenly, uint(count) - evenly, draw, uint(ends[words - 1]));
    cell = occupancy_of_rank(bits, ends, words, int(rank));
  }
  const OccupancyPlace place = occupancy_place(cell, resolution);
  const float side = place.size / float(resolution);
  const float low = SCENE_CENTER - 0.5f * place.size;
  cells[i] = cell;
  positions[3 * i] = low + side * (float(place.x) + (float(within >> 21) + 0.5f) / 2048.0f);
  positions[3 * i + 1] =
      low + side * (float(place.y) + (float(within >> 10 & 2047u) + 0.5f) / 2048.0f);
  positions[3 * i + 2] = low + side * (float(place.z) + (float(within & 1023u) + 0.5f) / 1024.0f);
}

// Updates the density estimates of all cells. Estimates decay, and larger peaks replace them. There
// is one thread per cell.
//
// since_visible counts updates after the warm-up, up to `longest`, or is NEVER_OCCUPIED or, during
// the warm-up, EMPTY_IN_WARMUP. shown is the new estimate, or -1 for a cell that has not been
// visible in the last `patience` updates: half the number of updates so far, clamped to
// [longest / 8, longest].
//
// factors = [decay, step]: the decay of estimates, and the marching step that converts peaks of the
// density to optical thickness. settings = [longest, counted]: counted is 0 during the warm-up and
// 1 afterwards. updates[0] is the number of updates after the warm-up, including this update.
template <typename Values, typename SinceVisible, typename Peaks, typename Visible,
          typename Updates, typename Factors, typename Settings, typename NewValues,
          typename NewSinceVisible, typename Shown>
METAL_FUNC void occupancy_refresh(
    uint3 thread_index, int count, Values values, SinceVisible since_visible, Peaks peaks,
    Visible visible, Updates updates, Factors factors, Settings settings, NewValues new_values,
    NewSinceVisible new_since_visible, Shown shown) {
  const int longest = settings[0], counted = settings[1];
  const int patience = min(max(updates[0] / 2, max(longest / 8, 1)), longest);
  const float decay = factors[0], step = factors[1];
  const uint i = thread_index.x;
  if (i >= uint(count)) return;
  const float value = max(values[i] * decay, peaks[i] * step);
  int since = since_visible[i];
  const bool stays = since == NEVER_OCCUPIED || (since == EMPTY_IN_WARMUP && counted == 0);
  if (!stays) since = visible[i] != 0 ? 0 : min(since + counted, longest);
  new_values[i] = value;
  new_since_visible[i] = since;
  shown[i] = since < patience ? value : -1.0f;
}
