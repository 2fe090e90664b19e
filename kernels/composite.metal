#include "light.h"

// Alpha compositing of packed samples (Mildenhall et al. 2020, equation 3):
//
//   weight_i = T_i (1 - exp(-density_i width_i)),   T_i = exp(-sum_{j<i} density_j width_j)
//
// Ray r owns the samples ray_start[r] to ray_start[r + 1] - 1, front to back. A simdgroup composites
// one ray, SIMD_WIDTH samples at a time: thread_index = (ray * SIMD_WIDTH + lane, 0, 0).

template <typename Density, typename Colour, typename Distances, typename Widths,
          typename RayStart, typename RayColour, typename Opacity, typename Depth>
METAL_FUNC void composite_forward(
    uint3 thread_index, int rays, Density density, Colour colour, Distances distances,
    Widths widths, RayStart ray_start, RayColour ray_colour, Opacity opacity, Depth depth) {
  const uint ray = thread_index.x / SIMD_WIDTH;
  const int lane = int(thread_index.x % SIMD_WIDTH);
  if (ray >= uint(rays)) return;
  const int end = ray_start[ray + 1];
  float optical = 0.0f, seen = 0.0f, far = 0.0f;
  float sum[3] = {0.0f, 0.0f, 0.0f};
  for (int first = ray_start[ray]; first < end && exp(-optical) >= light_end;
       first += SIMD_WIDTH) {
    const int i = first + lane;
    const LightSample sample = light_sample(i, end, density, widths, optical);
    if (sample.is_visible) {
      for (int c = 0; c < 3; ++c) sum[c] = fma(sample.weight, float(colour[3 * i + c]), sum[c]);
      far = fma(sample.weight, float(distances[i]), far);
      seen += sample.weight;
    }
  }
  for (int c = 0; c < 3; ++c) sum[c] = simd_sum(sum[c]);
  far = simd_sum(far);
  seen = simd_sum(seen);
  if (lane != 0) return;
  for (int c = 0; c < 3; ++c) ray_colour[3 * ray + c] = sum[c];
  opacity[ray] = seen;
  depth[ray] = far;
}

// With g_i = d_colour . colour_i + d_opacity + d_depth distance_i, the gradient of density_i is
// width_i (T_{i+1} g_i - sum_{j>i} weight_j g_j); the last sum is what the forward results leave
// after the samples up to i. Samples behind a ray's end have no gradient, nor have the slots that
// no ray owns, of slots[0] in all.
template <typename Density, typename Colour, typename Distances, typename Widths,
          typename RayStart, typename Slots, typename RayColour, typename Opacity, typename Depth,
          typename RayColourGradient, typename OpacityGradient, typename DepthGradient,
          typename DensityGradient, typename ColourGradient>
METAL_FUNC void composite_gradient(
    uint3 thread_index, int rays, Density density, Colour colour, Distances distances,
    Widths widths, RayStart ray_start, Slots slots, RayColour ray_colour, Opacity opacity,
    Depth depth, RayColourGradient d_ray_colour, OpacityGradient d_opacity, DepthGradient d_depth,
    DensityGradient d_density, ColourGradient d_colour) {
  const uint ray = thread_index.x / SIMD_WIDTH;
  const int lane = int(thread_index.x % SIMD_WIDTH);
  if (ray >= uint(rays)) return;
  for (int i = ray_start[rays] + int(thread_index.x); i < slots[0]; i += rays * SIMD_WIDTH) {
    d_density[i] = 0.0f;
    for (int c = 0; c < 3; ++c) d_colour[3 * i + c] = 0.0f;
  }
  float behind = d_opacity[ray] * opacity[ray] + d_depth[ray] * depth[ray];
  for (int c = 0; c < 3; ++c) {
    behind = fma(float(d_ray_colour[3 * ray + c]), float(ray_colour[3 * ray + c]), behind);
  }
  const int end = ray_start[ray + 1];
  float optical = 0.0f;
  for (int first = ray_start[ray]; first < end; first += SIMD_WIDTH) {
    const int i = first + lane;
    const LightSample sample = light_sample(i, end, density, widths, optical);
    float along = 0.0f;
    if (sample.is_visible) {
      along = fma(float(d_depth[ray]), float(distances[i]), float(d_opacity[ray]));
      for (int c = 0; c < 3; ++c) {
        along = fma(float(d_ray_colour[3 * ray + c]), float(colour[3 * i + c]), along);
      }
    }
    const float own = sample.weight * along;
    // Nothing counts behind the ray's end. The difference leaves a rounding error there, which a
    // large density would multiply: matter would grow denser without end.
    const float rest = behind - simd_prefix_exclusive_sum(own) - own;
    const float after = sample.passing >= light_end ? rest : 0.0f;
    behind -= simd_sum(own);
    if (i < end) {
      for (int c = 0; c < 3; ++c) d_colour[3 * i + c] = sample.weight * d_ray_colour[3 * ray + c];
      d_density[i] = sample.is_visible ? widths[i] * (sample.passing * along - after) : 0.0f;
    }
  }
}
