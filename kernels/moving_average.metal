// Moves each element of an average toward its newest value: average + weight (newest - average).
// There is one thread per element. If skipped[0] is not 0, the average does not change.
template <typename Average, typename Newest, typename Weight, typename Skipped, typename NewAverage>
METAL_FUNC void moving_average(
    uint3 thread_index, int count, Average average, Newest newest, Weight weight, Skipped skipped,
    NewAverage new_average) {
  const float share = skipped[0] == 0 ? weight[0] : 0.0f;
  const int i = int(thread_index.x);
  if (i >= count) return;
  new_average[i] = average[i] + share * (newest[i] - average[i]);
}
