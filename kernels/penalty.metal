// Penalties of samples, for the occlusion, depth, ground, and sensor losses, and the part of the
// losses of each ray that does not depend on the field.
//
// settings contains the weights of these losses in this order. The weight of the depth loss decays
// to 0 at the end of the run. counts contains the number of rays and the number of rays with a
// track. These rays come first. Each row of tracks contains a distance, its confidence, and its
// standard deviation. Each row of sensor contains a measured distance and its confidence. One
// thread computes the slot i and the ray i.
template <typename Distances, typename RayOf, typename Progress, typename Tracks, typename Ground,
          typename Sensor, typename Settings, typename Counts, typename SamplePenalty,
          typename RayPenalty>
METAL_FUNC void penalties(
    uint3 thread_index, int slots, Distances distances, RayOf ray_of, Progress progress,
    Tracks tracks, Ground ground, Sensor sensor, Settings settings, Counts counts,
    SamplePenalty sample_penalty, RayPenalty ray_penalty) {
  const int i = int(thread_index.x);
  const float depth = settings[1] * max(1.0f - progress[0], 0.0f);
  if (i < counts[0]) {
    float total = i < counts[1] ? depth * tracks[3 * i + 1] : 0.0f;
    if (settings[3] != 0.0f) total += settings[3] * sensor[2 * i + 1];
    ray_penalty[i] = total;
  }
  if (i >= slots) return;
  const float distance = distances[i];
  const int ray = ray_of[i];
  const float occlusion = settings[0] * max(1.0f - progress[0] / OCCLUSION_END, 0.0f);
  float sum = occlusion / (1.0f + distance);
  if (ray < counts[1]) {
    const float miss = (distance - tracks[3 * ray]) / tracks[3 * ray + 2];
    sum -= depth * tracks[3 * ray + 1] * exp(-0.5f * miss * miss);
  }
  if (settings[2] != 0.0f) {
    const float plane = ground[ray];
    const float away = min(fabs(distance / plane - 1.0f), GROUND_REACH);
    sum += settings[2] * (plane < FAR_DISTANCE ? away : 0.0f);
  }
  if (settings[3] != 0.0f) {
    const float miss = fabs(distance / sensor[2 * ray] - 1.0f) / SENSOR_REACH;
    sum -= settings[3] * sensor[2 * ray + 1] * max(1.0f - miss, 0.0f);
  }
  sample_penalty[i] = sum;
}
