// Draws the traced image on a canvas of any size, with linear interpolation between pixels.

@group(0) @binding(0) var<uniform> sizes: vec4<f32>;  // of the image and of the canvas
@group(0) @binding(1) var<storage, read> shown: array<vec4<f32>>;

@vertex
fn corner(@builtin(vertex_index) index: u32) -> @builtin(position) vec4<f32> {
  return vec4(f32(index & 1) * 4.0 - 1.0, f32(index >> 1) * 4.0 - 1.0, 0.0, 1.0);
}

fn linear_at(column: i32, row: i32) -> vec3<f32> {
  let size = vec2<i32>(sizes.xy);
  let at = clamp(vec2(column, row), vec2(0), size - 1);
  let sum = shown[at.y * size.x + at.x];
  return sum.xyz / max(sum.w, 1.0);
}

fn linear_to_srgb(values: vec3<f32>) -> vec3<f32> {
  let curve = 1.055 * pow(max(values, vec3(1e-6)), vec3(1.0 / 2.4)) - 0.055;
  return select(curve, values * 12.92, values <= vec3(0.0031308));
}

@fragment
fn pixel(@builtin(position) position: vec4<f32>) -> @location(0) vec4<f32> {
  let place = position.xy / sizes.zw * sizes.xy - 0.5;
  let lowest = floor(place);
  let part = place - lowest;
  let at = vec2<i32>(lowest);
  let above = mix(linear_at(at.x, at.y), linear_at(at.x + 1, at.y), part.x);
  let below = mix(linear_at(at.x, at.y + 1), linear_at(at.x + 1, at.y + 1), part.x);
  return vec4(linear_to_srgb(mix(above, below, part.y)), 1.0);
}
