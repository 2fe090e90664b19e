// Renders an image of the field with one thread per pixel; kernels/trace.metal in WGSL, with the
// rays of nerfmac/geometry/rays.py, the background of rendering/renderer.py, and the mean over the
// samples of a pixel as in video/frames.py.
//
// The page inserts constants before these files: LEVELS, FEATURES, WIDTH, DENSITY_LAYERS,
// COLOR_LAYERS, SEEN_CELLS (u32) and DENSITY_BIAS (f32), the constants of
// nerfmac/common/constants.py, and `half`, an alias of f16 or f32.

struct Frame {
  right: vec3<f32>,   // the camera's axes and place, in scene coordinates
  up: vec3<f32>,
  back: vec3<f32>,
  origin: vec3<f32>,
  lens: vec4<f32>,    // fl_x, fl_y, cx, cy in pixels
  background: vec3<f32>,  // sRGB
  offset: vec2<f32>,  // of the sample from its pixel's top left corner, in pixels
  size: vec2<u32>,    // the image's columns and rows
  rows: vec2<u32>,    // the rows that are traced: the first one, and that after the last
  kept: f32,          // factor on the previous sum: 1 adds a sample, 0 starts a new image
}

@group(0) @binding(0) var<uniform> frame: Frame;
// Sum over a pixel's samples of linear color; their number. Row by row from the top left.
@group(0) @binding(7) var<storage, read_write> image: array<vec4<f32>>;
// Depth as in `Rendered` of rendering/renderer.py, of the last sample.
@group(0) @binding(8) var<storage, read_write> depths: array<f32>;

struct Traced {
  color: vec3<f32>,  // sRGB, premultiplied by opacity
  opacity: f32,
  depth: f32,         // times opacity
}

fn trace_ray(origin: vec3<f32>, direction: vec3<f32>) -> Traced {
  let ray = march_ray(origin, direction);
  let toward = network_direction(direction);
  var color = vec3<f32>();
  var depth = 0.0;
  var median = 0.0;  // distance where the transmittance decreased to 1/2
  var transmittance = 1.0;
  var k = 0;
  while (transmittance >= EARLY_STOP_TRANSMITTANCE) {
    var probe: MarchProbe;
    while (k < ray.intervals) {
      probe = march_probe(ray, k);
      if (probe.is_sample) { break; }
      k = probe.next;
    }
    if (k >= ray.intervals) { break; }
    let position = origin + direction * probe.distance;
    let embedding = network_embedding(bounds_unit(position));
    let number = ray.first + f32(k);
    let width = march_distance(number + 1.0) - march_distance(number);
    let own = min(network_density(embedding), seen_density(position)) * width;
    let passing = transmittance * exp(-own);
    let weight = transmittance - passing;
    color += weight * network_color(embedding, toward);
    depth += weight * probe.distance;
    if (transmittance > 0.5 && passing <= 0.5) {
      median = probe.distance + (log(2.0 * transmittance) / own - 0.5) * width;
    }
    transmittance = passing;
    k++;
  }
  let opacity = 1.0 - transmittance;
  return Traced(color, opacity, select(depth, median * opacity, median > 0.0));
}

fn srgb_to_linear(values: vec3<f32>) -> vec3<f32> {
  let curve = pow((values + 0.055) / 1.055, vec3(2.4));
  return select(curve, values / 12.92, values <= vec3(0.04045));
}

@compute @workgroup_size(8, 8)
fn trace(@builtin(global_invocation_id) thread: vec3<u32>) {
  let pixel = vec2(thread.x, thread.y + frame.rows.x);
  if (pixel.x >= frame.size.x || pixel.y >= frame.rows.y) { return; }
  let place = (vec2<f32>(pixel) + frame.offset - frame.lens.zw) / frame.lens.xy;
  let direction = normalize(frame.right * place.x - frame.up * place.y - frame.back);
  let seen = trace_ray(frame.origin, direction);
  let color = seen.color + (1.0 - seen.opacity) * frame.background;
  let index = pixel.y * frame.size.x + pixel.x;
  let linear = srgb_to_linear(clamp(color, vec3(0.0), vec3(1.0)));
  image[index] = frame.kept * image[index] + vec4(linear, 1.0);
  depths[index] = seen.depth / max(seen.opacity, 1e-6);
}
