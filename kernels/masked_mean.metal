// Mean of the values of the rays with mask 1, times a factor, and the gradient of this mean.

// mean[0] = scale[0] sum(values mask) / max(sum(mask), 1), and share[0] is the mean of the mask.
// space has two floats for each simdgroup. A single threadgroup adds all values in a fixed order, so
// results are reproducible bit for bit.
template <typename Values, typename Mask, typename Scale, typename Mean, typename Share,
          typename Space>
METAL_FUNC void masked_mean_forward(
    uint3 thread_index, int rays, Values values, Mask mask, Scale scale, Mean mean, Share share,
    Space space) {
  const int local = int(thread_index.x);
  float sum = 0.0f, count = 0.0f;
  for (int first = local; first < rays; first += MEAN_TOGETHER * SIMD_WIDTH * GROUP_SIMDGROUPS) {
    // The loads of these rays do not wait for each other.
    UNROLL
    for (int i = 0; i < MEAN_TOGETHER; ++i) {
      const int ray = first + i * SIMD_WIDTH * GROUP_SIMDGROUPS;
      const float weight = ray < rays ? mask[ray] : 0.0f;
      sum = fma(ray < rays ? values[ray] : 0.0f, weight, sum);
      count += weight;
    }
  }
  sum = simd_sum(sum);
  count = simd_sum(count);
  if (local % SIMD_WIDTH == 0) {
    space[2 * (local / SIMD_WIDTH)] = sum;
    space[2 * (local / SIMD_WIDTH) + 1] = count;
  }
  threadgroup_publish();
  if (local > 0) return;
  for (int i = 1; i < GROUP_SIMDGROUPS; ++i) {
    sum += space[2 * i];
    count += space[2 * i + 1];
  }
  mean[0] = scale[0] / max(count, 1.0f) * sum;
  share[0] = count / float(rays);
}

// One thread computes the gradient of one ray.
template <typename Mask, typename Scale, typename Share, typename Slope, typename Gradient>
METAL_FUNC void masked_mean_gradient(
    uint3 thread_index, int rays, Mask mask, Scale scale, Share share, Slope d_mean,
    Gradient d_values) {
  const int ray = int(thread_index.x);
  if (ray >= rays) return;
  const float factor = d_mean[0] * scale[0] / max(share[0] * float(rays), 1.0f);
  d_values[ray] = factor * mask[ray];
}
