#include "occupancy.h"
#include "threefry.h"

// Random points in occupancy grid cells, and grid updates with new density estimates.

// Computes the largest estimate in each cell. Metal has an atomic maximum only for integers.
// Estimates are not negative, and the bits of nonnegative floats, compared as integers, have the
// same order as the floats. There is one thread per estimate, and peaks are initialized to zero.
//
// Only the first used[0] estimates are valid. Estimates outside all cascades have no effect.
// settings = [resolution, cascades].
template <typename Positions, typename Estimates, typename Used, typename Settings, typename Peaks>
METAL_FUNC void occupancy_splat(
    uint3 thread_index, int count, Positions positions, Estimates estimates, Used used,
    Settings settings, Peaks peaks) {
  const uint i = thread_index.x;
  if (i >= uint(min(count, used[0]))) return;
  const float3 position = {positions[3 * i], positions[3 * i + 1], positions[3 * i + 2]};
  const int cell = occupancy_cell(position, settings[0], settings[1]).index;
  if (cell < 0) return;
  atomic_fetch_max_explicit(
      &peaks[cell], as_type<uint>(float(estimates[i])), memory_order_relaxed);
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

// Draws random points in random cells. The cells are divided into `count` strata of equal size, and
// each point is in a random cell of its stratum. There is one thread per point.
//
// settings = [count, cells, resolution]. Each point has two random words: the first one selects the
// cell, and the bits of the second one are the position within the cell.
template <typename Key, typename Settings, typename Positions>
METAL_FUNC void occupancy_points(
    uint3 thread_index, int count, Key key, Settings settings, Positions positions) {
  const uint i = thread_index.x;
  if (i >= uint(count)) return;
  const uint cells = uint(settings[1]);
  const int resolution = settings[2];
  const uint2 words = threefry_words(uint2{key[0], key[1]}, uint2{i, i + uint(count)});
  const uint within = words.y;
  // The arithmetic is exact, because a float cannot represent neighboring cells above 2^24.
  const uint cell = uint((ulong(i) * cells + mulhi(words.x, cells)) / uint(count));
  const OccupancyPlace place = occupancy_place(int(cell), resolution);
  const float side = place.size / float(resolution);
  const float low = SCENE_CENTER - 0.5f * place.size;
  positions[3 * i] = low + side * (float(place.x) + (float(within >> 21) + 0.5f) / 2048.0f);
  positions[3 * i + 1] =
      low + side * (float(place.y) + (float(within >> 10 & 2047u) + 0.5f) / 2048.0f);
  positions[3 * i + 2] = low + side * (float(place.z) + (float(within & 1023u) + 0.5f) / 1024.0f);
}

// Updates the density estimates of all cells. Estimates decay, and larger peaks replace them. There
// is one thread per cell.
//
// since_visible counts updates after the warm-up, up to `longest`, or is NEVER_OCCUPIED. shown is
// the new estimate, or -1 for a cell that has not been visible in the last `patience` updates:
// half the number of updates so far, clamped to [longest / 8, longest].
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
  if (since != NEVER_OCCUPIED) since = visible[i] != 0 ? 0 : min(since + counted, longest);
  new_values[i] = value;
  new_since_visible[i] = since;
  shown[i] = since < patience ? value : -1.0f;
}
