// Multiresolution hash encoding; kernels/hash_encode.metal in WGSL. The table's features are
// float16, two in a word.

struct HashLevel {
  scale: f32,
  vertices: u32,  // along an axis
  first: u32,     // entry in the table
  entries: u32,
}

const PAIRS = (FEATURES + 1) / 2;  // words of an entry, unless two entries share one

@group(0) @binding(2) var<uniform> levels: array<HashLevel, LEVELS>;
@group(0) @binding(4) var<storage, read> table: array<u32>;

// The table's entry for a vertex of a level's grid.
fn hash_entry(level: HashLevel, vertex: vec3<u32>) -> u32 {
  let across = level.vertices;
  // 1625 cubed is the last cube below 2^32, so the product cannot wrap.
  if (across > 1625 || across * across * across > level.entries) {  // hashed: 2^k entries
    let hashed = vertex.x ^ (vertex.y * 2654435761u) ^ (vertex.z * 805459861u);
    return level.first + (hashed & (level.entries - 1));
  }
  let index = vertex.x + across * (vertex.y + across * vertex.z);
  return level.first + select(index % level.entries, index, index < level.entries);
}

// Features 2 pair and 2 pair + 1 of an entry.
fn hash_pair(entry: u32, pair: u32) -> vec2<f32> {
  if (FEATURES == 1) {
    return vec2(unpack2x16float(table[entry / 2])[entry % 2], 0.0);
  }
  return unpack2x16float(table[entry * PAIRS + pair]);
}

// The features of a point of [0, 1]^3 at one level.
fn hash_interpolate(number: u32, unit: vec3<f32>) -> array<vec2<f32>, PAIRS> {
  let level = levels[number];
  // Half a cell of offset keeps the levels' vertices from lining up at the border.
  let position = fma(vec3(level.scale), unit, vec3(0.5));
  let lowest = floor(position);
  let upper = position - lowest;
  let corner = vec3<u32>(vec3<i32>(lowest));
  var features: array<vec2<f32>, PAIRS>;
  for (var which = 0u; which < 8; which++) {
    let face = vec3(which & 1, (which >> 1) & 1, which >> 2);
    let weights = select(1.0 - upper, upper, face == vec3(1u));
    let weight = weights.x * weights.y * weights.z;
    let entry = hash_entry(level, corner + face);
    for (var pair = 0u; pair < PAIRS; pair++) {
      features[pair] = fma(vec2(weight), hash_pair(entry, pair), features[pair]);
    }
  }
  return features;
}
