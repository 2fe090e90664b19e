#include "light.h"
#include "slots.h"

// Thinning packed samples: a first pass counts those that a ray keeps, a second one writes them into
// the slots that the counts leave it.
//
// A sample that light reaches is kept with a chance of 1, 1/2, 1/4, ... or 1/32: halved as long as its
// weight is less than as large a part of below[0]. It then has the width width_i / chance_i, so that
// the expected optical depth stays what it was. The chances along a ray are summed; a sample is kept
// where the sum passes a whole number. So the samples kept lie evenly in that sum (systematic
// sampling), beginning at the ray's offset in [0, 1). The sum is one of integers, so that the two
// passes agree. With below[0] = 0 every chance is 1. A simdgroup thins one ray:
// thread_index = (ray * SIMD_WIDTH + lane, 0, 0).

constant constexpr int thin_whole = 32;  // WHOLE in ops/thin.py: the integer for a chance of 1

struct ThinSample {
  int chance;  // in thin_whole-ths; 0 where no light reaches
  bool is_kept;
};

// Sample `i` of a ray that ends before `end`. `optical` and `sum`, the optical depth and the chances
// before the simdgroup's samples, become those behind them.
template <typename Density, typename Widths, typename Below>
METAL_FUNC ThinSample thin_sample(
    int i, int end, Density density, Widths widths, Below below, thread float& optical,
    thread int& sum) {
  const LightSample light = light_sample(i, end, density, widths, optical);
  ThinSample sample;
  sample.chance = light.is_visible ? thin_whole : 0;
  for (float limit = 0.5f * below[0]; sample.chance > 1 && light.weight < limit; limit *= 0.5f) {
    sample.chance /= 2;
  }
  const int before = sum + simd_prefix_exclusive_sum(sample.chance);
  sample.is_kept = (before + sample.chance) / thin_whole > before / thin_whole;
  sum += simd_sum(sample.chance);
  return sample;
}

template <typename Density, typename Widths, typename RayStart, typename Offsets,
          typename Below, typename Counts>
METAL_FUNC void thin_count(
    uint3 thread_index, int rays, Density density, Widths widths, RayStart ray_start,
    Offsets offsets, Below below, Counts counts) {
  const uint ray = thread_index.x / SIMD_WIDTH;
  const int lane = int(thread_index.x % SIMD_WIDTH);
  if (ray >= uint(rays)) return;
  const int end = ray_start[ray + 1];
  float optical = 0.0f;
  int sum = int(offsets[ray] * float(thin_whole)), count = 0;
  for (int first = ray_start[ray]; first < end && exp(-optical) >= light_end;
       first += SIMD_WIDTH) {
    const ThinSample sample =
        thin_sample(first + lane, end, density, widths, below, optical, sum);
    count += simd_sum(int(sample.is_kept));
  }
  if (lane == 0) counts[ray] = count;
}

// Ray r's kept samples go to the slots kept_start[r] to kept_start[r + 1] - 1; a ray for which there
// was no room has none. Slots that no ray owns, of slots[0] in all, become zero. So do those that a
// ray owns and has no samples for: counting was compiled apart, and may have rounded a chance
// otherwise.
template <typename Density, typename Widths, typename RayStart, typename Offsets,
          typename Below, typename Positions, typename Distances, typename KeptStart,
          typename Slots, typename KeptPositions, typename KeptDistances, typename KeptWidths,
          typename RayOf>
METAL_FUNC void thin_write(
    uint3 thread_index, int rays, Density density, Widths widths, RayStart ray_start,
    Offsets offsets, Below below, Positions positions, Distances distances,
    KeptStart kept_start, Slots slots, KeptPositions kept_positions, KeptDistances kept_distances,
    KeptWidths kept_widths, RayOf ray_of) {
  const uint ray = thread_index.x / SIMD_WIDTH;
  const int lane = int(thread_index.x % SIMD_WIDTH);
  if (ray >= uint(rays)) return;
  for (int slot = kept_start[rays] + int(thread_index.x); slot < slots[0];
       slot += rays * SIMD_WIDTH) {
    slots_clear(slot, kept_positions, kept_distances, kept_widths, ray_of);
  }
  const int end = ray_start[ray + 1], kept_end = kept_start[ray + 1];
  int kept = kept_start[ray];  // slot of the next sample
  float optical = 0.0f;
  int sum = int(offsets[ray] * float(thin_whole));
  for (int first = ray_start[ray]; first < end && kept < kept_end; first += SIMD_WIDTH) {
    const int i = first + lane;
    const ThinSample sample = thin_sample(i, end, density, widths, below, optical, sum);
    const int slot = kept + simd_prefix_exclusive_sum(int(sample.is_kept));
    if (sample.is_kept && slot < kept_end) {
      for (int axis = 0; axis < 3; ++axis) {
        kept_positions[3 * slot + axis] = positions[3 * i + axis];
      }
      kept_distances[slot] = distances[i];
      kept_widths[slot] = widths[i] * (float(thin_whole) / float(sample.chance));
      ray_of[slot] = int(ray);
    }
    kept += simd_sum(int(sample.is_kept));
  }
  for (int slot = kept + lane; slot < kept_end; slot += SIMD_WIDTH) {
    slots_clear(slot, kept_positions, kept_distances, kept_widths, ray_of);
  }
}
