// Exposure of composited colors, relative to the mean exposure of all views, and its gradient.
//
// In each channel, the linear light of a ray is multiplied by exp(logarithm - mean), where the
// logarithm is that of the ray's view and the mean is over all views. The light is clipped at 1.
// color is premultiplied by the opacity. It is divided by the opacity before the exposure, and the
// background is added after it.
//
// Comparisons are written so that NaN is not replaced by a limit, and gradients are multiplied by
// 0 instead of being replaced by 0, because the trainer must detect values that are not finite.

// Writes the factors exp(logarithm - mean) of the views. A simdgroup computes one view:
// thread_index = (view * SIMD_WIDTH + lane, 0, 0).
template <typename Logarithms, typename Factors>
METAL_FUNC void expose_factors(
    uint3 thread_index, int views, Logarithms logarithms, Factors factors) {
  const int view = int(thread_index.x) / SIMD_WIDTH, lane = int(thread_index.x) % SIMD_WIDTH;
  if (view >= views) return;
  for (int c = 0; c < 3; ++c) {
    float sum = 0.0f;
    for (int other = lane; other < views; other += SIMD_WIDTH) sum += logarithms[3 * other + c];
    const float mean = simd_sum(sum) / float(views);
    if (lane == 0) factors[3 * view + c] = exp(logarithms[3 * view + c] - mean);
  }
}

struct ExposedChannel {
  float straight;  // sRGB color without the opacity, before the exposure
  float light;     // linear light after the exposure, before it is clipped
  float clipped;   // linear light, at most 1
  float encoded;   // sRGB color without the opacity, after the exposure
};

METAL_FUNC float expose_divisor(float opacity) {
  return opacity < MIN_EXPOSED_OPACITY ? MIN_EXPOSED_OPACITY : opacity;
}

METAL_FUNC ExposedChannel expose_channel(float straight, float factor) {
  ExposedChannel result;
  result.straight = straight;
  const float decoded = straight <= 0.04045f
                            ? straight / 12.92f
                            : pow((straight + 0.055f) / 1.055f, 2.4f);
  result.light = factor * decoded;
  result.clipped = result.light > 1.0f ? 1.0f : result.light;
  result.encoded = result.clipped <= 0.0031308f
                       ? 12.92f * result.clipped
                       : fma(1.055f, pow(result.clipped, 1.0f / 2.4f), -0.055f);
  return result;
}

// One thread computes the color of one ray.
template <typename Color, typename Opacity, typename Factors, typename View,
          typename Background, typename Exposed>
METAL_FUNC void expose_forward(
    uint3 thread_index, int rays, Color color, Opacity opacity, Factors factors, View view,
    Background background, Exposed exposed) {
  const int ray = int(thread_index.x);
  if (ray >= rays) return;
  const float divisor = expose_divisor(opacity[ray]);
  for (int c = 0; c < 3; ++c) {
    const ExposedChannel channel =
        expose_channel(color[3 * ray + c] / divisor, factors[3 * view[ray] + c]);
    exposed[3 * ray + c] =
        fma(divisor, channel.encoded, (1.0f - opacity[ray]) * background[3 * ray + c]);
  }
}

// One thread computes the gradient of one ray. d_exposures (rays, 3) is the gradient with respect
// to logarithm - mean.
template <typename Color, typename Opacity, typename Factors, typename View,
          typename Background, typename Slope, typename DColor, typename DOpacity,
          typename DExposures>
METAL_FUNC void expose_gradient(
    uint3 thread_index, int rays, Color color, Opacity opacity, Factors factors, View view,
    Background background, Slope d_exposed, DColor d_color, DOpacity d_opacity,
    DExposures d_exposures) {
  const int ray = int(thread_index.x);
  if (ray >= rays) return;
  const float divisor = expose_divisor(opacity[ray]);
  float d_divisor = 0.0f, d_transparency = 0.0f;
  for (int c = 0; c < 3; ++c) {
    const ExposedChannel channel =
        expose_channel(color[3 * ray + c] / divisor, factors[3 * view[ray] + c]);
    const float slope = d_exposed[3 * ray + c];
    const float encoding = channel.clipped <= 0.0031308f
                               ? 12.92f
                               : 1.055f / 2.4f * pow(channel.clipped, 1.0f / 2.4f - 1.0f);
    const float decoding =
        channel.straight <= 0.04045f
            ? 1.0f / 12.92f
            : 2.4f / 1.055f * pow((channel.straight + 0.055f) / 1.055f, 1.4f);
    const float d_light = slope * divisor * encoding * (channel.light < 1.0f ? 1.0f : 0.0f);
    const float d_straight = d_light * factors[3 * view[ray] + c] * decoding;
    d_exposures[3 * ray + c] = d_light * channel.light;
    d_color[3 * ray + c] = d_straight / divisor;
    d_divisor += slope * channel.encoded - d_straight * channel.straight / divisor;
    d_transparency = fma(slope, background[3 * ray + c], d_transparency);
  }
  const float is_divisor = opacity[ray] > MIN_EXPOSED_OPACITY ? 1.0f : 0.0f;
  d_opacity[ray] = fma(is_divisor, d_divisor, -d_transparency);
}

// One thread adds up the gradients of EXPOSE_CHUNK rays for each view. sums (views + 1, 3, chunks)
// has the sums of each view and, last, of all views. views[0] is the number of views.
template <typename View, typename DExposures, typename Views, typename Sums>
METAL_FUNC void expose_view_sums(
    uint3 thread_index, int rays, View view, DExposures d_exposures, Views views, Sums sums) {
  const int chunk = int(thread_index.x), chunks = (rays + EXPOSE_CHUNK - 1) / EXPOSE_CHUNK;
  if (chunk >= chunks) return;
  for (int i = 0; i < 3 * views[0]; ++i) sums[i * chunks + chunk] = 0.0f;
  float total[3] = {0.0f, 0.0f, 0.0f};
  const int end = min((chunk + 1) * EXPOSE_CHUNK, rays);
  for (int ray = chunk * EXPOSE_CHUNK; ray < end; ++ray) {
    float slope[3], sum[3];  // All are read before the first is written, so no read waits.
    for (int c = 0; c < 3; ++c) {
      slope[c] = d_exposures[3 * ray + c];
      sum[c] = sums[(3 * view[ray] + c) * chunks + chunk];
    }
    for (int c = 0; c < 3; ++c) {
      sums[(3 * view[ray] + c) * chunks + chunk] = sum[c] + slope[c];
      total[c] += slope[c];
    }
  }
  for (int c = 0; c < 3; ++c) sums[(3 * views[0] + c) * chunks + chunk] = total[c];
}

// A simdgroup computes the gradient of one view: thread_index = (view * SIMD_WIDTH + lane, 0, 0).
// The gradient of the mean is included: each ray adds its gradient times (1 - 1 / views) to its own
// view, and times -1 / views to all other views. The values are added in a fixed order, so results
// are reproducible bit for bit. rows is the number of views plus 1.
template <typename Sums, typename Chunks, typename DLogarithms>
METAL_FUNC void expose_view_gradient(
    uint3 thread_index, int rows, Sums sums, Chunks chunks, DLogarithms d_logarithms) {
  const int view = int(thread_index.x) / SIMD_WIDTH, lane = int(thread_index.x) % SIMD_WIDTH;
  const int views = rows - 1;
  if (view >= views) return;
  for (int c = 0; c < 3; ++c) {
    float own = 0.0f, total = 0.0f;
    for (int chunk = lane; chunk < chunks[0]; chunk += SIMD_WIDTH) {
      own += sums[(3 * view + c) * chunks[0] + chunk];
      total += sums[(3 * views + c) * chunks[0] + chunk];
    }
    own = simd_sum(own);
    total = simd_sum(total);
    if (lane == 0) d_logarithms[3 * view + c] = own - total / float(views);
  }
}
