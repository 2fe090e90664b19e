// Depth that a sensor has measured along each ray.
//
// fractions (3, count) and view_of select the pixel of each ray, as in draw_pixels.metal. places has
// one row of three values for each view: first pixel, height, and width of its depth map. The
// inverse distance is interpolated linearly between pixel centers, because the inverse depth of a
// plane is linear in the image. The confidence is the lowest confidence of the four pixels, and the
// distance is 1 if one of them is unknown. One thread computes one ray.
template <typename Fractions, typename ViewOf, typename Places, typename Distances,
          typename Confidences, typename Known>
METAL_FUNC void sensor_depth(
    uint3 thread_index, int count, Fractions fractions, ViewOf view_of, Places places,
    Distances distances, Confidences confidences, Known known) {
  const int ray = int(thread_index.x);
  if (ray >= count) return;
  const int view = view_of[ray];
  const int first = places[3 * view], height = places[3 * view + 1], width = places[3 * view + 2];
  const float row = clamp(
      fractions[count + ray] * float(height) - 0.5f, 0.0f, float(height - 1));
  const float column = clamp(
      fractions[2 * count + ray] * float(width) - 0.5f, 0.0f, float(width - 1));
  const int top = int(row), left = int(column);
  float inverse = 0.0f;
  int lowest = 255;
  for (int corner = 0; corner < 4; ++corner) {
    const int down = corner / 2, right = corner % 2;
    const float across = column - float(left), along = row - float(top);
    const float share = (right ? across : 1.0f - across) * (down ? along : 1.0f - along);
    const int pixel =
        first + min(top + down, height - 1) * width + min(left + right, width - 1);
    const int confidence = int(confidences[pixel]);
    lowest = min(lowest, confidence);
    inverse += confidence > 0 ? share / distances[pixel] : 0.0f;
  }
  known[2 * ray] = lowest > 0 ? 1.0f / inverse : 1.0f;
  known[2 * ray + 1] = float(lowest) / 255.0f;
}
