#include "light.h"
#include "slots.h"

// Thinning of packed samples. A first pass counts the samples that are kept on each ray. A second
// pass writes these samples into the slots that the counts determine.
//
// A visible sample is kept with a probability p of 1, 1/2, 1/4, ..., or 1/32. The probability is
// the smallest of these values above weight / below[0]. If below[0] is 0, every visible sample is
// kept. Samples are selected by systematic sampling: probabilities are added up along the ray,
// beginning with the offset of the ray in [0, 1), and a sample is kept if its probability increases
// the integer part of the sum. Probabilities are represented by integers, so that both passes
// agree. A simdgroup thins one ray: thread_index = (ray * SIMD_WIDTH + lane, 0, 0).

struct ThinSample {
  int chance;  // probability in units of 1 / THINNING_UNITS; 0 if the sample is not visible
  bool is_kept;
  float omitted;  // its optical depth, if it is visible but not kept
};

// Optical depth and sum of probabilities in front of the samples that a simdgroup processes.
struct ThinRay {
  float optical;
  int sum;
};

// Evaluates sample `i` of a ray with the slots up to `end`, and advances `ray` past the simdgroup's
// samples.
template <typename Density, typename Widths, typename Below>
METAL_FUNC ThinSample thin_sample(
    int i, int end, Density density, Widths widths, Below below, thread ThinRay& ray) {
  const float own = i < end ? density[i] * widths[i] : 0.0f;
  const LightSample light =
      light_sample(i < end, own, ray.optical + simd_prefix_exclusive_sum(own));
  ThinSample sample;
  sample.chance = light.is_visible ? THINNING_UNITS : 0;
  for (float limit = 0.5f * below[0]; sample.chance > 1 && light.weight < limit; limit *= 0.5f) {
    sample.chance /= 2;
  }
  const int before = ray.sum + simd_prefix_exclusive_sum(sample.chance);
  sample.is_kept = (before + sample.chance) / THINNING_UNITS > before / THINNING_UNITS;
  sample.omitted = light.is_visible && !sample.is_kept ? own : 0.0f;
  ray.optical += simd_sum(own);
  ray.sum += simd_sum(sample.chance);
  return sample;
}

// Counts the kept samples of each ray. new_wanted is equal to the count, or to wanted if there were
// not enough slots for the marched samples of the ray.
template <typename Density, typename Widths, typename RayStart, typename Offsets, typename Wanted,
          typename Below, typename Counts, typename NewWanted>
METAL_FUNC void thin_count(
    uint3 thread_index, int rays, Density density, Widths widths, RayStart ray_start,
    Offsets offsets, Wanted wanted, Below below, Counts counts, NewWanted new_wanted) {
  const uint ray = thread_index.x / SIMD_WIDTH;
  const int lane = int(thread_index.x % SIMD_WIDTH);
  if (ray >= uint(rays)) return;
  const int end = ray_start[ray + 1];
  ThinRay along = {0.0f, int(offsets[ray] * float(THINNING_UNITS))};
  int count = 0;
  for (int first = ray_start[ray]; first < end && exp(-along.optical) >= EARLY_STOP_TRANSMITTANCE;
       first += SIMD_WIDTH) {
    count += simd_sum(int(thin_sample(first + lane, end, density, widths, below, along).is_kept));
  }
  if (lane > 0) return;
  counts[ray] = count;
  new_wanted[ray] = end - ray_start[ray] == wanted[ray] ? count : wanted[ray];
}

// Marks a slot as unused.
template <typename Positions, typename Distances, typename Widths, typename RayOf,
          typename Inverse, typename Omitted>
METAL_FUNC void thin_clear(
    int slot, Positions positions, Distances distances, Widths widths, RayOf ray_of,
    Inverse inverse_probability, Omitted omitted) {
  slots_clear(slot, positions, distances, widths, ray_of);
  inverse_probability[slot] = 1.0f;
  omitted[slot] = 0.0f;
}

// Writes the kept samples of ray r to the slots kept_start[r] to kept_start[r + 1] - 1. For each
// kept sample, the kernel also writes 1 / probability and the optical depth of the samples omitted
// in front of it. For each ray, the kernel writes the optical depth of all omitted samples.
// slots[0] is the number of slots. Unused slots are cleared. Slots of a ray for which no sample is
// found are also cleared, because the counting pass is compiled separately and may round a
// probability differently.
template <typename Density, typename Widths, typename RayStart, typename Offsets,
          typename Below, typename Positions, typename Distances, typename KeptStart,
          typename Slots, typename KeptPositions, typename KeptDistances, typename KeptWidths,
          typename RayOf, typename Inverse, typename Omitted, typename RayOmitted>
METAL_FUNC void thin_write(
    uint3 thread_index, int rays, Density density, Widths widths, RayStart ray_start,
    Offsets offsets, Below below, Positions positions, Distances distances,
    KeptStart kept_start, Slots slots, KeptPositions kept_positions, KeptDistances kept_distances,
    KeptWidths kept_widths, RayOf ray_of, Inverse inverse_probability, Omitted omitted,
    RayOmitted ray_omitted) {
  const uint ray = thread_index.x / SIMD_WIDTH;
  const int lane = int(thread_index.x % SIMD_WIDTH);
  if (ray >= uint(rays)) return;
  for (int slot = kept_start[rays] + int(thread_index.x); slot < slots[0];
       slot += rays * SIMD_WIDTH) {
    thin_clear(slot, kept_positions, kept_distances, kept_widths, ray_of, inverse_probability,
               omitted);
  }
  const int end = ray_start[ray + 1], kept_end = kept_start[ray + 1];
  int kept = kept_start[ray];  // slot of the next sample
  float missing = 0.0f;        // optical depth omitted so far
  ThinRay along = {0.0f, int(offsets[ray] * float(THINNING_UNITS))};
  for (int first = ray_start[ray]; first < end && exp(-along.optical) >= EARLY_STOP_TRANSMITTANCE;
       first += SIMD_WIDTH) {
    const int i = first + lane;
    const ThinSample sample = thin_sample(i, end, density, widths, below, along);
    const int slot = kept + simd_prefix_exclusive_sum(int(sample.is_kept));
    const float missing_before = missing + simd_prefix_exclusive_sum(sample.omitted);
    if (sample.is_kept && slot < kept_end) {
      for (int axis = 0; axis < 3; ++axis) {
        kept_positions[3 * slot + axis] = positions[3 * i + axis];
      }
      kept_distances[slot] = distances[i];
      kept_widths[slot] = widths[i];
      ray_of[slot] = int(ray);
      inverse_probability[slot] = float(THINNING_UNITS) / float(sample.chance);
      omitted[slot] = missing_before;
    }
    kept += simd_sum(int(sample.is_kept));
    missing += simd_sum(sample.omitted);
  }
  if (lane == 0) ray_omitted[ray] = missing;
  for (int slot = kept + lane; slot < kept_end; slot += SIMD_WIDTH) {
    thin_clear(slot, kept_positions, kept_distances, kept_widths, ray_of, inverse_probability,
               omitted);
  }
}
