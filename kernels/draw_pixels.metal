// Random pixels of photos, and the colors and rays of given pixels. Cameras and lenses are as in
// nerfmac/geometry. Pixels are numbered view by view in row-major order.
//
// places has one row of five values for each of the views[0] views: first pixel, height, width, and
// the entry of the alias table. This entry consists of the probability of selecting the row's view,
// in units of 2^-24, and the index of the alternative view (see nerfmac/geometry/cameras.py). A
// pixel has CHANNELS bytes.

struct DrawnDirection {
  float x, y, z;
};

// Returns the direction that a fisheye lens projects to (x, y), computed with NEWTON_STEPS steps of
// Newton's method. The lens coefficients k1 to k4 are distortion[lens] and the next three values.
template <int NEWTON_STEPS, typename Distortion>
METAL_FUNC DrawnDirection draw_fisheye(float x, float y, Distortion distortion, int lens) {
  const float k1 = distortion[lens], k2 = distortion[lens + 1], k3 = distortion[lens + 2];
  const float k4 = distortion[lens + 3], away = sqrt(x * x + y * y);
  float angle = away;
  for (int i = 0; i < NEWTON_STEPS; ++i) {
    const float square = angle * angle;
    const float radial = 1.0f + square * (k1 + square * (k2 + square * (k3 + square * k4)));
    const float slope = k1 + square * (2.0f * k2 + square * (3.0f * k3 + square * 4.0f * k4));
    const float derivative = radial + 2.0f * square * slope;
    const float step =
        (angle * radial - away) / (abs(derivative) < 1e-6f ? 1e-6f : derivative);
    angle -= clamp(step, -LONGEST_STEP, LONGEST_STEP);
  }
  const float side = away < 1e-6f ? 1.0f : precise::sin(angle) / away;
  return DrawnDirection{side * x, side * y, precise::cos(angle)};
}

// Returns the direction that a lens projects to (wanted_x, wanted_y), computed with NEWTON_STEPS
// steps of Newton's method, or directly for a lens without distortion. The seven values from
// distortion[lens] on are k1, k2, k3, k4, p1, p2, and a flag that is 1 for a fisheye lens.
template <int NEWTON_STEPS, typename Distortion>
METAL_FUNC DrawnDirection draw_undistorted(
    float wanted_x, float wanted_y, Distortion distortion, int lens) {
  if (NEWTON_STEPS > 0 && distortion[lens + 6] > 0.0f) {
    return draw_fisheye<NEWTON_STEPS>(wanted_x, wanted_y, distortion, lens);
  }
  float x = wanted_x, y = wanted_y;
  for (int i = 0; i < NEWTON_STEPS; ++i) {
    const float k1 = distortion[lens], k2 = distortion[lens + 1], k3 = distortion[lens + 2];
    const float k4 = distortion[lens + 3], p1 = distortion[lens + 4], p2 = distortion[lens + 5];
    const float square = x * x + y * y, product = x * y;
    const float radial = 1.0f + square * (k1 + square * (k2 + square * (k3 + square * k4)));
    const float slope = k1 + square * (2.0f * k2 + square * (3.0f * k3 + square * 4.0f * k4));
    const float miss_x =
        x * radial + 2.0f * p1 * product + p2 * (square + 2.0f * x * x) - wanted_x;
    const float miss_y =
        y * radial + 2.0f * p2 * product + p1 * (square + 2.0f * y * y) - wanted_y;
    const float xx = radial + 2.0f * x * x * slope + 2.0f * p1 * y + 6.0f * p2 * x;
    const float xy = 2.0f * product * slope + 2.0f * p1 * x + 2.0f * p2 * y;
    const float yy = radial + 2.0f * y * y * slope + 2.0f * p2 * x + 6.0f * p1 * y;
    const float determinant = xx * yy - xy * xy;
    const float inverse = 1.0f / (abs(determinant) < 1e-6f ? 1e-6f : determinant);
    x -= clamp((yy * miss_x - xy * miss_y) * inverse, -LONGEST_STEP, LONGEST_STEP);
    y -= clamp((xx * miss_y - xy * miss_x) * inverse, -LONGEST_STEP, LONGEST_STEP);
  }
  return DrawnDirection{x, y, 1.0f};
}

// Selects one pixel per thread. fractions (3, count) in [0, 1) select the view, the row, and the
// column.
template <typename Fractions, typename Views, typename Places, typename Index>
METAL_FUNC void choose_pixels(
    uint3 thread_index, int count, Fractions fractions, Views views, Places places, Index index) {
  const int ray = int(thread_index.x);
  if (ray >= count) return;
  const float share = fractions[ray] * float(views[0]);
  int view = min(int(share), views[0] - 1);
  const int kept = int((share - float(view)) * float(FRACTION_UNITS));
  if (kept >= places[5 * view + 3]) view = places[5 * view + 4];
  const int height = places[5 * view + 1], width = places[5 * view + 2];
  const int row = min(int(fractions[count + ray] * float(height)), height - 1);
  const int column = min(int(fractions[2 * count + ray] * float(width)), width - 1);
  index[ray] = places[5 * view] + row * width + column;
}

// Reads one pixel per thread, and computes the ray through its center.
template <int CHANNELS, int NEWTON_STEPS, typename Index, typename Views, typename Places,
          typename Pixels, typename Intrinsics, typename Distortion, typename Poses,
          typename Origins, typename Directions, typename Colors, typename Alphas, typename ViewOf>
METAL_FUNC void draw_pixels(
    uint3 thread_index, int count, Index index, Views views, Places places, Pixels pixels,
    Intrinsics intrinsics, Distortion distortion, Poses poses, Origins origins,
    Directions directions, Colors colors, Alphas alphas, ViewOf view_of) {
  const int ray = int(thread_index.x);
  if (ray >= count) return;
  const int chosen = index[ray];
  int view = 0;
  for (int next = views[0]; next - view > 1;) {  // the last view that begins before the pixel
    const int middle = (view + next) / 2;
    if (places[5 * middle] <= chosen) {
      view = middle;
    } else {
      next = middle;
    }
  }
  view_of[ray] = view;
  const int width = places[5 * view + 2], own = chosen - places[5 * view];
  const int row = own / width, column = own - row * width;
  // There are fewer than 2^31 pixels, but the number of bytes may be larger.
  const size_t pixel = size_t(chosen);
  for (int c = 0; c < 3; ++c) colors[3 * ray + c] = float(pixels[pixel * CHANNELS + c]) / 255.0f;
  alphas[ray] = CHANNELS == 4 ? float(pixels[pixel * CHANNELS + CHANNELS - 1]) / 255.0f : 1.0f;

  const DrawnDirection seen = draw_undistorted<NEWTON_STEPS>(
      (float(column) + 0.5f - intrinsics[4 * view + 2]) / intrinsics[4 * view],
      (float(row) + 0.5f - intrinsics[4 * view + 3]) / intrinsics[4 * view + 1], distortion,
      7 * view);
  float direction[3], square = 0.0f;
  for (int axis = 0; axis < 3; ++axis) {
    const int at = 12 * view + 4 * axis;
    direction[axis] = poses[at] * seen.x - poses[at + 1] * seen.y - poses[at + 2] * seen.z;
    square += direction[axis] * direction[axis];
  }
  for (int axis = 0; axis < 3; ++axis) {
    origins[3 * ray + axis] = poses[12 * view + 4 * axis + 3];
    directions[3 * ray + axis] = direction[axis] / sqrt(square);
  }
}
