// Multiresolution hash encoding; kernels/hash_encode.metal in WGSL. The table's features are
// float16, two in a word.

struct HashLevel {
  scale: f32,
  vertices: u32,  // along an axis
  first: u32,     // entry in the table
  entries: u32,
}

@group(0) @binding(2) var<uniform> levels: array<HashLevel, LEVELS>;
@group(0) @binding(4) var<storage, read> table: array<u32>;

// The table's entry for a vertex of a level's grid.
fn hash_entry(level: HashLevel, vertex: vec3<u32>) -> u32 {
  let across = level.vertices;
  // 1625 cubed is the last cube below 2^32, so the product cannot wrap.
  if (across > 1625 || across * across * across > level.entries) {  // hashed: 2^k entries
    let hashed = vertex.x ^ (vertex.y * HASH_PRIME_Y) ^ (vertex.z * HASH_PRIME_Z);
    return level.first + (hashed & (level.entries - 1));
  }
  let index = vertex.x + across * (vertex.y + across * vertex.z);
  return level.first + select(index % level.entries, index, index < level.entries);
}

// The features of an entry from number `first` on: four, or as many as there are.
fn hash_row(entry: u32, first: u32) -> vec4<f32> {
  if (FEATURES == 1) {
    return vec4(unpack2x16float(table[entry / 2])[entry % 2], 0.0, 0.0, 0.0);
  }
  let word = (entry * FEATURES + first) / 2;
  let pair = unpack2x16float(table[word]);
  if (FEATURES == 2) { return vec4(pair, 0.0, 0.0); }
  return vec4(pair, unpack2x16float(table[word + 1]));
}

// A level's features from number `first` on, as in hash_row, at a point of [0, 1]^3.
fn hash_interpolate(number: u32, first: u32, unit: vec3<f32>) -> vec4<f32> {
  let level = levels[number];
  // Half a cell of offset keeps the levels' vertices from lining up at the border.
  let position = fma(vec3(level.scale), unit, vec3(0.5));
  let lowest = floor(position);
  let upper = position - lowest;
  let corner = vec3<u32>(vec3<i32>(lowest));
  var features = vec4<f32>();
  for (var which = 0u; which < 8; which++) {
    let face = vec3(which & 1, (which >> 1) & 1, which >> 2);
    let weights = select(1.0 - upper, upper, face == vec3(1u));
    let weight = weights.x * weights.y * weights.z;
    let row = hash_row(hash_entry(level, corner + face), first);
    features = fma(vec4(weight), row, features);
  }
  return features;
}

// Four features of all levels' together, from number 4 quarter on, at a point of [0, 1]^3.
fn hash_features(quarter: u32, unit: vec3<f32>) -> vec4<f32> {
  let first = 4 * quarter;
  let level = first / FEATURES;
  var features = hash_interpolate(level, first % FEATURES, unit);
  if (FEATURES == 2) {
    features = vec4(features.xy, hash_interpolate(level + 1, 0, unit).xy);
  } else if (FEATURES == 1) {
    features.y = hash_interpolate(level + 1, 0, unit).x;
    features.z = hash_interpolate(level + 2, 0, unit).x;
    features.w = hash_interpolate(level + 3, 0, unit).x;
  }
  return features;
}
