// Mean Huber loss (1964) of the three channels of a color, and its gradient, for each ray. For an
// error e, the loss of a channel is e^2 / (2 delta) if |e| <= delta, and |e| - delta / 2 otherwise.
// One thread computes one ray.

template <typename Predicted, typename Target, typename Delta, typename Loss>
METAL_FUNC void huber_forward(
    uint3 thread_index, int rays, Predicted predicted, Target target, Delta delta, Loss loss) {
  const int ray = int(thread_index.x);
  if (ray >= rays) return;
  float sum = 0.0f;
  for (int c = 0; c < 3; ++c) {
    const float error = predicted[3 * ray + c] - target[3 * ray + c];
    const float clipped = clamp(error, -delta[0], delta[0]);
    sum = fma(clipped, error - 0.5f * clipped, sum);
  }
  loss[ray] = sum / (3.0f * delta[0]);
}

template <typename Predicted, typename Target, typename Delta, typename Slope, typename Gradient>
METAL_FUNC void huber_gradient(
    uint3 thread_index, int rays, Predicted predicted, Target target, Delta delta, Slope d_loss,
    Gradient d_predicted) {
  const int ray = int(thread_index.x);
  if (ray >= rays) return;
  const float factor = d_loss[ray] / (3.0f * delta[0]);
  for (int c = 0; c < 3; ++c) {
    const float error = predicted[3 * ray + c] - target[3 * ray + c];
    d_predicted[3 * ray + c] = factor * clamp(error, -delta[0], delta[0]);
  }
}
