#include "light.h"

// Computes the distance at which each ray ends: half a step behind its last visible sample, because
// rounding must not exclude this sample. If the transmittance behind the last sample is above the
// threshold, the ray does not end, and the distance is FAR_DISTANCE. If there were not enough slots
// for the wanted[r] samples of a ray, the distance is 0. A simdgroup computes one ray:
// thread_index = (ray * SIMD_WIDTH + lane, 0, 0).
template <typename Density, typename Widths, typename Distances, typename RayStart, typename Wanted,
          typename Ends>
METAL_FUNC void visibility_ends(
    uint3 thread_index, int rays, Density density, Widths widths, Distances distances,
    RayStart ray_start, Wanted wanted, Ends ends) {
  const uint ray = thread_index.x / SIMD_WIDTH;
  const int lane = int(thread_index.x % SIMD_WIDTH);
  if (ray >= uint(rays)) return;
  const int begin = ray_start[ray], end = ray_start[ray + 1];
  float optical = 0.0f;
  int visible = 0;
  for (int first = begin; first < end && exp(-optical) >= EARLY_STOP_TRANSMITTANCE;
       first += SIMD_WIDTH) {
    const int i = first + lane;
    const float own = i < end ? density[i] * widths[i] : 0.0f;
    const LightSample light = light_sample(i < end, own, optical + simd_prefix_exclusive_sum(own));
    visible += simd_sum(int(light.is_visible));
    optical += simd_sum(own);
  }
  if (lane > 0) return;
  const int last = begin + visible - 1;
  if (end - begin != wanted[ray]) {
    ends[ray] = 0.0f;
  } else if (visible > 0 && exp(-optical) < EARLY_STOP_TRANSMITTANCE) {
    ends[ray] = distances[last] + 0.5f * widths[last];
  } else {
    ends[ray] = FAR_DISTANCE;
  }
}
