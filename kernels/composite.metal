// Alpha compositing of packed samples (Mildenhall et al. 2020, equation 3):
//
//   weight_i = T_i (1 - exp(-density_i width_i)),   T_i = exp(-sum_{j<i} density_j width_j)
//
// Ray r owns the samples ray_start[r] to ray_start[r + 1] - 1, front to back. A ray ends before the
// first sample that less than 1e-4 of the light would reach. One thread a ray.

constant constexpr float composite_end = 1e-4f;

template <typename Density, typename Colour, typename Distances, typename Widths,
          typename RayStart, typename RayColour, typename Opacity, typename Depth>
METAL_FUNC void composite_forward(
    uint3 thread_index, int rays, Density density, Colour colour, Distances distances,
    Widths widths, RayStart ray_start, RayColour ray_colour, Opacity opacity, Depth depth) {
  const uint ray = thread_index.x;
  if (ray >= uint(rays)) return;
  float transmittance = 1.0f, far = 0.0f;
  float sum[3] = {0.0f, 0.0f, 0.0f};
  for (int i = ray_start[ray]; i < ray_start[ray + 1] && transmittance >= composite_end; ++i) {
    const float passed = exp(-density[i] * widths[i]);
    const float weight = transmittance * (1.0f - passed);
    for (int c = 0; c < 3; ++c) sum[c] = fma(weight, float(colour[3 * i + c]), sum[c]);
    far = fma(weight, float(distances[i]), far);
    transmittance *= passed;
  }
  for (int c = 0; c < 3; ++c) ray_colour[3 * ray + c] = sum[c];
  opacity[ray] = 1.0f - transmittance;
  depth[ray] = far;
}

// With g_i = d_colour . colour_i + d_opacity + d_depth distance_i, the gradient of density_i is
// width_i (T_{i+1} g_i - sum_{j>i} weight_j g_j); the last sum is what the forward results leave
// after the samples up to i. Samples behind a ray's end keep the zeros they start from.
template <typename Density, typename Colour, typename Distances, typename Widths,
          typename RayStart, typename RayColour, typename Opacity, typename Depth,
          typename RayColourGradient, typename OpacityGradient, typename DepthGradient,
          typename DensityGradient, typename ColourGradient>
METAL_FUNC void composite_gradient(
    uint3 thread_index, int rays, Density density, Colour colour, Distances distances,
    Widths widths, RayStart ray_start, RayColour ray_colour, Opacity opacity, Depth depth,
    RayColourGradient d_ray_colour, OpacityGradient d_opacity, DepthGradient d_depth,
    DensityGradient d_density, ColourGradient d_colour) {
  const uint ray = thread_index.x;
  if (ray >= uint(rays)) return;
  float behind = d_opacity[ray] * opacity[ray] + d_depth[ray] * depth[ray];
  for (int c = 0; c < 3; ++c) {
    behind = fma(float(d_ray_colour[3 * ray + c]), float(ray_colour[3 * ray + c]), behind);
  }
  float transmittance = 1.0f;
  for (int i = ray_start[ray]; i < ray_start[ray + 1] && transmittance >= composite_end; ++i) {
    const float passed = exp(-density[i] * widths[i]);
    const float weight = transmittance * (1.0f - passed);
    float along = fma(float(d_depth[ray]), float(distances[i]), float(d_opacity[ray]));
    for (int c = 0; c < 3; ++c) {
      along = fma(float(d_ray_colour[3 * ray + c]), float(colour[3 * i + c]), along);
      d_colour[3 * i + c] = weight * d_ray_colour[3 * ray + c];
    }
    transmittance *= passed;
    behind = fma(-weight, along, behind);
    d_density[i] = widths[i] * (transmittance * along - behind);
  }
}
