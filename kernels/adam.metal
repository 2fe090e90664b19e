// One Adam step (Kingma and Ba 2015, algorithm 1) in one pass over the arrays, with one thread per
// element. If the gradient of an element is zero, the element and its moments do not change.
//
// unscale[0], the reciprocal of the loss scale, is multiplied with the gradient. If it is 0, the
// step is skipped, and no element changes.
//
// Both moments of an element are packed into 32 bits. The high 20 bits are the second moment: the
// exponent and the first 12 fraction bits of a nonnegative float. The low 12 bits are the ratio of
// the first moment to its upper bound, in steps of 1 / 2047 from -1. The upper bound is `most`
// times the square root of the second moment. The ratio is rounded stochastically with bits of the
// gradient. With rounding to nearest, a moment that decays by less than half a step would never
// decay.
//
// step = [beta1, beta2, size, epsilon, l2, most]: the decay of both moments, the step size and
// epsilon including bias correction, the weight of the L2 penalty, and the factor of the bound
// above.

struct AdamMoments {
  float first;
  float second;
};

METAL_FUNC AdamMoments adam_unpack(uint packed, float most) {
  AdamMoments moments;
  moments.second = as_type<float>(packed >> 12 << 11);
  const float fraction = float(int(packed & 4095u) - 2048) * (1.0f / 2047.0f);
  moments.first = fraction * most * sqrt(moments.second);
  return moments;
}

METAL_FUNC uint adam_pack(AdamMoments moments, float most, float gradient) {
  const float dither =
      float(as_type<uint>(gradient) * HASH_PRIME_Y >> 8) * (1.0f / float(FRACTION_UNITS));
  const uint second = (as_type<uint>(moments.second) + 1024u) >> 11;
  const float bound = most * sqrt(as_type<float>(second << 11));
  float fraction = bound > 0.0f ? moments.first / bound : 0.0f;
  if (!(abs(fraction) <= 1.0f)) fraction = fraction > 0.0f ? 1.0f : -1.0f;  // also for NaN
  return second << 12 | uint(int(floor(fraction * 2047.0f + dither)) + 2048);
}

template <typename Parameters, typename Moments, typename Gradient, typename Unscale,
          typename Step, typename NewParameters, typename NewMoments>
METAL_FUNC void adam(
    uint3 thread_index, int count, Parameters parameters, Moments moments, Gradient gradient,
    Unscale unscale, Step step, NewParameters new_parameters, NewMoments new_moments) {
  // The settings are read before any thread-dependent code, so that a CPU compiler can vectorize
  // over the threads.
  const float beta1 = step[0], beta2 = step[1], size = step[2], epsilon = step[3];
  const float l2 = step[4], most = step[5], factor = unscale[0];
  const int i = int(thread_index.x);
  if (i >= count) return;
  const AdamMoments before = adam_unpack(moments[i], most);
  const float slope = factor != 0.0f ? factor * gradient[i] + l2 * parameters[i] : 0.0f;
  AdamMoments after;
  after.first = beta1 * before.first + (1.0f - beta1) * slope;
  after.second = beta2 * before.second + (1.0f - beta2) * slope * slope;
  const float moved = parameters[i] - size * after.first / (sqrt(after.second) + epsilon);
  new_parameters[i] = slope != 0.0f ? moved : parameters[i];
  new_moments[i] = slope != 0.0f ? adam_pack(after, most, gradient[i]) : moments[i];
}
