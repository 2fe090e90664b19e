// Light along a ray. A ray ends before the first sample that less than 1e-4 of the light would reach.

constant constexpr float light_end = 1e-4f;  // EARLY_STOP_TRANSMITTANCE in ops/composite.py

struct LightSample {
  bool is_visible;
  float reaching, passing, weight;  // the light before it, behind it, and their difference
};

// Sample `i` of a ray that ends before `end`; `optical` is the ray's optical depth before the
// simdgroup's samples and becomes that behind them.
template <typename Density, typename Widths>
METAL_FUNC LightSample light_sample(
    int i, int end, Density density, Widths widths, thread float& optical) {
  const float own = i < end ? density[i] * widths[i] : 0.0f;
  const float before = optical + simd_prefix_exclusive_sum(own);
  LightSample sample;
  sample.reaching = exp(-before);
  sample.is_visible = i < end && sample.reaching >= light_end;
  sample.passing = sample.reaching * exp(-own);
  sample.weight = sample.is_visible ? sample.reaching - sample.passing : 0.0f;
  optical += simd_sum(own);
  return sample;
}
