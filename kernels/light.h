// Transmittance along a ray. A ray ends before the first sample with a transmittance below
// EARLY_STOP_TRANSMITTANCE.

struct LightSample {
  bool is_visible;
  float reaching, passing;  // transmittance in front of the sample and behind it
  float weight;             // their difference
};

// Returns the weight and transmittances of a sample with optical depth `own` behind the optical
// depth `before`. `exists` is false for lanes past the end of the ray.
METAL_FUNC LightSample light_sample(bool exists, float own, float before) {
  LightSample sample;
  sample.reaching = exp(-before);
  sample.is_visible = exists && sample.reaching >= EARLY_STOP_TRANSMITTANCE;
  sample.passing = sample.reaching * exp(-own);
  sample.weight = sample.is_visible ? sample.reaching - sample.passing : 0.0f;
  return sample;
}
