// Real spherical harmonics up to degree 4 of a unit direction; kernels/spherical_harmonics.metal in
// WGSL.

fn spherical_harmonics(direction: vec3<f32>) -> array<vec4<f32>, 4> {
  let x = direction.x;
  let y = direction.y;
  let z = direction.z;
  let x2 = x * x;
  let y2 = y * y;
  let z2 = z * z;
  return array(
    vec4(
      0.28209479177387814,
      -0.48860251190291987 * y,
      0.48860251190291987 * z,
      -0.48860251190291987 * x,
    ),
    vec4(
      1.0925484305920792 * x * y,
      -1.0925484305920792 * y * z,
      0.94617469575755997 * z2 - 0.31539156525251999,
      -1.0925484305920792 * x * z,
    ),
    vec4(
      0.54627421529603959 * (x2 - y2),
      0.59004358992664352 * y * (y2 - 3.0 * x2),
      2.8906114426405538 * x * y * z,
      0.45704579946446572 * y * (1.0 - 5.0 * z2),
    ),
    vec4(
      0.3731763325901154 * z * (5.0 * z2 - 3.0),
      0.45704579946446572 * x * (1.0 - 5.0 * z2),
      1.4453057213202769 * z * (x2 - y2),
      0.59004358992664352 * x * (3.0 * y2 - x2),
    ),
  );
}
