#include "light.h"

// Alpha compositing of packed samples (Mildenhall et al. 2020, equation 3). Some samples may have
// been omitted at random (see thin.metal):
//
//   weight_i = T_i (1 - exp(-tau_i)) / p_i,   tau_i = density_i width_i
//   T_i = exp(-(omitted_i + sum_{j<i} tau_j))
//   opacity = 1 - exp(-(omitted + sum_i tau_i))
//
// p_i is the probability that the sample was kept, `omitted_i` is the optical depth of the samples
// omitted in front of it, and `omitted` is the optical depth of all samples omitted on the ray.
// Transmittance and opacity are therefore exact for the whole ray. In colors, depths, and all
// gradients, a sample's contribution is multiplied by 1 / p_i. Without omitted samples, p_i is 1
// and omitted_i is 0.
//
// Colors are summed relative to the expected color of the ray, as a control variate:
//
//   color = opacity expected + sum_i weight_i (color_i - expected) + (1 - opacity) background
//
// The control variate does not change the mean color, and samples with the expected color add no
// noise. Depth and penalty are weighted sums of the distances and the penalties of the samples:
//
//   depth = sum_i weight_i distance_i,   ray_penalty = sum_i weight_i penalty_i
//
// The gradient needs the sum in the color without the other two terms, `difference`. Subtracting
// these terms from the color would cause rounding errors.
//
// Ray r has the samples ray_start[r] to ray_start[r + 1] - 1, front to back. A simdgroup composites
// one ray, SIMD_WIDTH samples at a time: thread_index = (ray * SIMD_WIDTH + lane, 0, 0).

template <typename Density, typename Color, typename Distances, typename Widths,
          typename RayStart, typename Inverse, typename Omitted, typename Expected,
          typename Background, typename Penalty, typename RayOmitted, typename RayColor,
          typename Opacity, typename Depth, typename RayPenalty, typename Difference>
METAL_FUNC void composite_forward(
    uint3 thread_index, int rays, Density density, Color color, Distances distances,
    Widths widths, RayStart ray_start, Inverse inverse_probability, Omitted omitted,
    Expected expected, Background background, Penalty penalty, RayOmitted ray_omitted,
    RayColor ray_color, Opacity opacity, Depth depth, RayPenalty ray_penalty,
    Difference difference) {
  const uint ray = thread_index.x / SIMD_WIDTH;
  const int lane = int(thread_index.x % SIMD_WIDTH);
  if (ray >= uint(rays)) return;
  const int end = ray_start[ray + 1];
  float optical = 0.0f, visible = 0.0f, far = 0.0f, penalized = 0.0f;
  float sum[3] = {0.0f, 0.0f, 0.0f};
  for (int first = ray_start[ray]; first < end && exp(-optical) >= EARLY_STOP_TRANSMITTANCE;
       first += SIMD_WIDTH) {
    const int i = first + lane;
    const float own = i < end ? density[i] * widths[i] : 0.0f;
    const float before = optical + simd_prefix_exclusive_sum(own);
    const LightSample sample = light_sample(i < end, own, i < end ? omitted[i] + before : before);
    if (sample.is_visible) {
      const float weight = sample.weight * inverse_probability[i];
      for (int c = 0; c < 3; ++c) {
        sum[c] = fma(weight, float(color[3 * i + c]) - float(expected[3 * ray + c]), sum[c]);
      }
      far = fma(weight, float(distances[i]), far);
      penalized = fma(weight, float(penalty[i]), penalized);
      visible += own;
    }
    optical += simd_sum(own);
  }
  for (int c = 0; c < 3; ++c) sum[c] = simd_sum(sum[c]);
  far = simd_sum(far);
  penalized = simd_sum(penalized);
  visible = simd_sum(visible);
  if (lane != 0) return;
  // Metal's fast exp(0) may differ from 1, but the opacity of an empty ray must be 0.
  const float total = visible + ray_omitted[ray];
  const float seen = total > 0.0f ? 1.0f - exp(-total) : 0.0f;
  for (int c = 0; c < 3; ++c) {
    const float light = fma(seen, float(expected[3 * ray + c]), sum[c]);
    ray_color[3 * ray + c] = fma(1.0f - seen, float(background[3 * ray + c]), light);
    difference[3 * ray + c] = sum[c];
  }
  opacity[ray] = seen;
  depth[ray] = far;
  ray_penalty[ray] = penalized;
}

// A remaining transmittance of at most this value may be only the rounding error of 1 - opacity.
constant constexpr float composite_rounding = 1e-6f;

// The gradient of density_i is, with
// g_i = d_color . (color_i - expected) + d_depth distance_i + d_penalty penalty_i,
//
//   width_i / p_i (T_i exp(-tau_i) g_i - sum_{j>i} weight_j g_j
//                  + (1 - opacity) (d_opacity + d_color . (expected - background)))
//
// The sum over j is computed as the forward result minus the contributions of the samples up to i.
// Samples behind the end of a ray and unused slots have zero gradients. slots[0] is the number of
// slots. Gradients of samples near the camera are multiplied by min(1, (distance_i / full)^2),
// where full is full_gradient_distance[0], or not scaled if it is 0.
template <typename Density, typename Color, typename Distances, typename Widths,
          typename RayStart, typename Inverse, typename Omitted, typename Expected,
          typename Background, typename Penalty, typename Slots, typename Full, typename Opacity,
          typename Depth, typename RayPenalty, typename Difference, typename RayColorGradient,
          typename OpacityGradient, typename DepthGradient, typename RayPenaltyGradient,
          typename DensityGradient, typename ColorGradient>
METAL_FUNC void composite_gradient(
    uint3 thread_index, int rays, Density density, Color color, Distances distances,
    Widths widths, RayStart ray_start, Inverse inverse_probability, Omitted omitted,
    Expected expected, Background background, Penalty penalty, Slots slots,
    Full full_gradient_distance, Opacity opacity, Depth depth, RayPenalty ray_penalty,
    Difference difference, RayColorGradient d_ray_color, OpacityGradient d_opacity,
    DepthGradient d_depth, RayPenaltyGradient d_ray_penalty, DensityGradient d_density,
    ColorGradient d_color) {
  const float full = full_gradient_distance[0];
  const uint ray = thread_index.x / SIMD_WIDTH;
  const int lane = int(thread_index.x % SIMD_WIDTH);
  if (ray >= uint(rays)) return;
  for (int i = ray_start[rays] + int(thread_index.x); i < slots[0]; i += rays * SIMD_WIDTH) {
    d_density[i] = 0.0f;
    for (int c = 0; c < 3; ++c) d_color[3 * i + c] = 0.0f;
  }
  float behind = fma(float(d_depth[ray]), float(depth[ray]), d_ray_penalty[ray] * ray_penalty[ray]);
  float through = d_opacity[ray];
  for (int c = 0; c < 3; ++c) {
    const float slope = d_ray_color[3 * ray + c];
    behind = fma(slope, float(difference[3 * ray + c]), behind);
    through = fma(slope, expected[3 * ray + c] - background[3 * ray + c], through);
  }
  // Without this check and the next one, rounding errors in the gradient would let the density of
  // an opaque sample grow without limit.
  const float remaining = 1.0f - opacity[ray];
  through *= remaining > composite_rounding ? remaining : 0.0f;
  const int end = ray_start[ray + 1];
  float optical = 0.0f;
  for (int first = ray_start[ray]; first < end; first += SIMD_WIDTH) {
    const int i = first + lane;
    const float own = i < end ? density[i] * widths[i] : 0.0f;
    const float before = optical + simd_prefix_exclusive_sum(own);
    const LightSample sample = light_sample(i < end, own, i < end ? omitted[i] + before : before);
    float along = 0.0f, weight = 0.0f;
    if (sample.is_visible) {
      along = fma(float(d_depth[ray]), float(distances[i]), d_ray_penalty[ray] * penalty[i]);
      for (int c = 0; c < 3; ++c) {
        const float offset = float(color[3 * i + c]) - float(expected[3 * ray + c]);
        along = fma(float(d_ray_color[3 * ray + c]), offset, along);
      }
      weight = sample.weight * inverse_probability[i];
    }
    const float part = weight * along;
    const float rest = behind - simd_prefix_exclusive_sum(part) - part;
    // After the last visible sample, the difference is only a rounding error.
    const float after = sample.passing >= EARLY_STOP_TRANSMITTANCE ? rest : 0.0f;
    behind -= simd_sum(part);
    optical += simd_sum(own);
    if (i < end) {
      const float relative = full > 0.0f ? min(distances[i] / full, 1.0f) : 1.0f;
      const float factor = relative * relative;
      for (int c = 0; c < 3; ++c) d_color[3 * i + c] = factor * weight * d_ray_color[3 * ray + c];
      const float slope = factor * widths[i] * inverse_probability[i];
      d_density[i] = sample.is_visible ? slope * (sample.passing * along - after + through) : 0.0f;
    }
  }
}
