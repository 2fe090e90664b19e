// Pixels drawn from photographs and the rays through their centres; cameras and lenses are those of
// nerfmac/geometry.
//
// One thread draws one pixel: fractions (3, count) in [0, 1) say how far down the list of images,
// down the image and along the row it is. sizes holds the number of images, of rows and of columns;
// a pixel has CHANNELS bytes.

struct DrawnPoint {
  float x, y;
};

// The direction (x, y, 1) that a lens sends to `wanted`, by NEWTON_STEPS steps of Newton's method,
// none for a lens that does not distort. Its six coefficients are distortion[lens] and those after
// it: k1, k2, k3, k4, p1, p2.
template <int NEWTON_STEPS, typename Distortion>
METAL_FUNC DrawnPoint draw_undistorted(DrawnPoint wanted, Distortion distortion, int lens) {
  constexpr float longest_step = 0.5f;  // LONGEST_STEP in nerfmac/geometry/lenses.py
  float x = wanted.x, y = wanted.y;
  for (int i = 0; i < NEWTON_STEPS; ++i) {
    const float k1 = distortion[lens], k2 = distortion[lens + 1], k3 = distortion[lens + 2];
    const float k4 = distortion[lens + 3], p1 = distortion[lens + 4], p2 = distortion[lens + 5];
    const float square = x * x + y * y, product = x * y;
    const float radial = 1.0f + square * (k1 + square * (k2 + square * (k3 + square * k4)));
    const float slope = k1 + square * (2.0f * k2 + square * (3.0f * k3 + square * 4.0f * k4));
    const float miss_x =
        x * radial + 2.0f * p1 * product + p2 * (square + 2.0f * x * x) - wanted.x;
    const float miss_y =
        y * radial + 2.0f * p2 * product + p1 * (square + 2.0f * y * y) - wanted.y;
    const float xx = radial + 2.0f * x * x * slope + 2.0f * p1 * y + 6.0f * p2 * x;
    const float xy = 2.0f * product * slope + 2.0f * p1 * x + 2.0f * p2 * y;
    const float yy = radial + 2.0f * y * y * slope + 2.0f * p2 * x + 6.0f * p1 * y;
    const float determinant = xx * yy - xy * xy;
    const float inverse = 1.0f / (abs(determinant) < 1e-6f ? 1e-6f : determinant);
    x -= clamp((yy * miss_x - xy * miss_y) * inverse, -longest_step, longest_step);
    y -= clamp((xx * miss_y - xy * miss_x) * inverse, -longest_step, longest_step);
  }
  return DrawnPoint{x, y};
}

template <int CHANNELS, int NEWTON_STEPS, typename Fractions, typename Sizes, typename Images,
          typename Intrinsics, typename Distortion, typename Poses, typename Origins,
          typename Directions, typename Colours>
METAL_FUNC void draw_pixels(
    uint3 thread_index, int count, Fractions fractions, Sizes sizes, Images images,
    Intrinsics intrinsics, Distortion distortion, Poses poses, Origins origins,
    Directions directions, Colours colours) {
  const int ray = int(thread_index.x);
  if (ray >= count) return;
  int place[3];  // image, row, column
  for (int axis = 0; axis < 3; ++axis) {
    const float fraction = fractions[axis * count + ray];
    place[axis] = min(int(fraction * float(sizes[axis])), sizes[axis] - 1);
  }
  // There are fewer than 2^31 pixels, but there may be more bytes.
  const size_t pixel = size_t((place[0] * sizes[1] + place[1]) * sizes[2] + place[2]);
  for (int c = 0; c < 4; ++c) {
    colours[4 * ray + c] =
        c < CHANNELS ? float(images[pixel * CHANNELS + min(c, CHANNELS - 1)]) / 255.0f : 1.0f;
  }

  const int view = place[0];
  const DrawnPoint seen{
      (float(place[2]) + 0.5f - intrinsics[4 * view + 2]) / intrinsics[4 * view],
      (float(place[1]) + 0.5f - intrinsics[4 * view + 3]) / intrinsics[4 * view + 1]};
  const DrawnPoint point = draw_undistorted<NEWTON_STEPS>(seen, distortion, 6 * view);
  float direction[3], square = 0.0f;
  for (int axis = 0; axis < 3; ++axis) {
    const int row = 12 * view + 4 * axis;
    direction[axis] = poses[row] * point.x - poses[row + 1] * point.y - poses[row + 2];
    square += direction[axis] * direction[axis];
  }
  for (int axis = 0; axis < 3; ++axis) {
    origins[3 * ray + axis] = poses[12 * view + 4 * axis + 3];
    directions[3 * ray + axis] = direction[axis] / sqrt(square);
  }
}
