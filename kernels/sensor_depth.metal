// Depth that a sensor has measured along each ray.
//
// index and view_of are the pixel and the view of each ray, and image_places is as in
// draw_pixels.metal. places has one row of three values for each view: first pixel, height, and
// width of its depth map, which covers the same area as the image. The
// inverse distance is interpolated linearly between pixel centers, because the inverse depth of a
// plane is linear in the image. The confidence is the lowest confidence of the four pixels, and the
// distance is 1 if one of them is unknown. One thread computes one ray.
template <typename Index, typename ViewOf, typename ImagePlaces, typename Places,
          typename Distances, typename Confidences, typename Known>
METAL_FUNC void sensor_depth(
    uint3 thread_index, int count, Index index, ViewOf view_of, ImagePlaces image_places,
    Places places, Distances distances, Confidences confidences, Known known) {
  const int ray = int(thread_index.x);
  if (ray >= count) return;
  const int view = view_of[ray];
  const int first = places[3 * view], height = places[3 * view + 1], width = places[3 * view + 2];
  const int image_height = image_places[5 * view + 1], image_width = image_places[5 * view + 2];
  const int own = index[ray] - image_places[5 * view], image_row = own / image_width;
  const float down = (float(image_row) + 0.5f) / float(image_height);
  const float across = (float(own - image_row * image_width) + 0.5f) / float(image_width);
  const float row = clamp(down * float(height) - 0.5f, 0.0f, float(height - 1));
  const float column = clamp(across * float(width) - 0.5f, 0.0f, float(width - 1));
  const int top = int(row), left = int(column);
  float inverse = 0.0f;
  int lowest = 255;
  for (int corner = 0; corner < 4; ++corner) {
    const int below = corner / 2, right = corner % 2;
    const float x = column - float(left), y = row - float(top);
    const float share = (right ? x : 1.0f - x) * (below ? y : 1.0f - y);
    const int pixel =
        first + min(top + below, height - 1) * width + min(left + right, width - 1);
    const int confidence = int(confidences[pixel]);
    lowest = min(lowest, confidence);
    inverse += confidence > 0 ? share / distances[pixel] : 0.0f;
  }
  known[2 * ray] = lowest > 0 ? 1.0f / inverse : 1.0f;
  known[2 * ray + 1] = float(lowest) / 255.0f;
}
