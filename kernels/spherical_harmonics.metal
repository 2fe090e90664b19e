// Real spherical harmonics of degrees 0 to 3 (sixteen functions) as polynomials of a unit
// direction. The order and the signs are as in tiny-cuda-nn, which calls these functions "degree
// 4". There is one thread per direction.

template <typename Basis>
METAL_FUNC void spherical_harmonics(float x, float y, float z, Basis basis) {
  const float xy = x * y, xz = x * z, yz = y * z, x2 = x * x, y2 = y * y, z2 = z * z;
  basis[0] = 0.28209479177387814f;
  basis[1] = -0.48860251190291987f * y;
  basis[2] = 0.48860251190291987f * z;
  basis[3] = -0.48860251190291987f * x;
  basis[4] = 1.0925484305920792f * xy;
  basis[5] = -1.0925484305920792f * yz;
  basis[6] = 0.94617469575755997f * z2 - 0.31539156525251999f;
  basis[7] = -1.0925484305920792f * xz;
  basis[8] = 0.54627421529603959f * (x2 - y2);
  basis[9] = 0.59004358992664352f * y * (y2 - 3.0f * x2);
  basis[10] = 2.8906114426405538f * xy * z;
  basis[11] = 0.45704579946446572f * y * (1.0f - 5.0f * z2);
  basis[12] = 0.3731763325901154f * z * (5.0f * z2 - 3.0f);
  basis[13] = 0.45704579946446572f * x * (1.0f - 5.0f * z2);
  basis[14] = 1.4453057213202769f * z * (x2 - y2);
  basis[15] = 0.59004358992664352f * x * (3.0f * y2 - x2);
}

template <typename Directions, typename Basis>
METAL_FUNC void spherical_harmonics_forward(
    uint3 thread_index, int count, Directions directions, Basis basis) {
  const uint row = thread_index.x;
  if (row >= uint(count)) return;
  spherical_harmonics(
      directions[3 * row], directions[3 * row + 1], directions[3 * row + 2],
      basis + DIRECTION_FEATURES * row);
}

template <typename Directions, typename Gradient, typename DirectionGradient>
METAL_FUNC void spherical_harmonics_gradient(
    uint3 thread_index, int count, Directions directions, Gradient gradient,
    DirectionGradient direction_gradient) {
  const uint row = thread_index.x;
  if (row >= uint(count)) return;
  const float x = directions[3 * row], y = directions[3 * row + 1], z = directions[3 * row + 2];
  const float xy = x * y, xz = x * z, yz = y * z, x2 = x * x, y2 = y * y, z2 = z * z;
  float g[DIRECTION_FEATURES];
  for (uint i = 0; i < DIRECTION_FEATURES; ++i) g[i] = gradient[DIRECTION_FEATURES * row + i];

  float dx = -0.48860251190291987f * g[3] + 1.0925484305920792f * (y * g[4] - z * g[7] + x * g[8]);
  float dy = -0.48860251190291987f * g[1] + 1.0925484305920792f * (x * g[4] - z * g[5] - y * g[8]);
  float dz = 0.48860251190291987f * g[2] - 1.0925484305920792f * (y * g[5] + x * g[7]) +
             1.8923493915151202f * z * g[6];

  dx += -3.5402615395598611f * xy * g[9] + 2.8906114426405538f * (yz * g[10] + xz * g[14]) +
        0.45704579946446572f * (1.0f - 5.0f * z2) * g[13] +
        1.7701307697799304f * (y2 - x2) * g[15];
  dy += 1.7701307697799304f * (y2 - x2) * g[9] + 2.8906114426405538f * (xz * g[10] - yz * g[14]) +
        0.45704579946446572f * (1.0f - 5.0f * z2) * g[11] + 3.5402615395598611f * xy * g[15];
  dz += 2.8906114426405538f * xy * g[10] - 4.5704579946446572f * (yz * g[11] + xz * g[13]) +
        1.1195289977703462f * (5.0f * z2 - 1.0f) * g[12] + 1.4453057213202769f * (x2 - y2) * g[14];

  direction_gradient[3 * row] = dx;
  direction_gradient[3 * row + 1] = dy;
  direction_gradient[3 * row + 2] = dz;
}
