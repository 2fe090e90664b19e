// Appended to the page's shader by the tests: what it computes at given points.

@group(1) @binding(0) var<storage, read> points: array<vec4<f32>>;  // position, then direction
@group(1) @binding(1) var<storage, read_write> found: array<f32>;   // COLUMNS_FOUND a point

const COLUMNS_FOUND = LEVELS * FEATURES + 10;

@compute @workgroup_size(64)
fn probe(@builtin(global_invocation_id) thread: vec3<u32>) {
  if (2 * thread.x >= arrayLength(&points)) { return; }
  let position = points[2 * thread.x].xyz;
  let direction = points[2 * thread.x + 1].xyz;
  var next = thread.x * COLUMNS_FOUND;
  let unit = bounds_unit(position);
  for (var quarter = 0u; quarter < QUARTERS; quarter++) {
    let features = hash_features(quarter, unit);
    for (var i = 0u; i < 4; i++) { found[next + i] = features[i]; }
    next += 4;
  }
  let embedding = network_embedding(unit);
  let color = network_color(embedding, network_direction(direction));
  let around = occupancy_cell(position);
  let cell = around.index;
  let is_occupied = cell >= 0 && ((bits[max(cell, 0) >> 5] >> u32(cell & 31)) & 1) == 1;
  let last = array(
    seen_part(around), unit.x, unit.y, unit.z, network_density(embedding), color.x, color.y, color.z, f32(cell),
    f32(is_occupied),
  );
  for (var i = 0u; i < 10; i++) { found[next + i] = last[i]; }
}
