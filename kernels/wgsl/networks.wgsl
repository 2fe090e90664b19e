// The two stacked networks; kernels/networks.metal in WGSL. A thread computes one sample. Matrices
// are (inputs, outputs) and row-major; four outputs of a row are one vector.

const COLUMNS = WIDTH / 4;   // vectors of a hidden layer
const EMBEDDING = 16u;       // outputs of the density network
const BASIS = 16u;           // spherical harmonics
const SQUARE = WIDTH * COLUMNS;
const DENSITY_WEIGHTS = (LEVELS * FEATURES + EMBEDDING) * COLUMNS + (DENSITY_LAYERS - 1) * SQUARE;
const MOST_LOGARITHM = 15.0;  // DENSITY_LIMIT in ops/networks.py

alias Hidden = array<vec4<half>, COLUMNS>;
alias Embedding = array<vec4<half>, 4>;

@group(0) @binding(5) var<storage, read> weights: array<vec4<half>>;

// Adds one input's part to a layer's sums; `row` is where the input's weights begin.
fn network_add(sums: ptr<function, Hidden>, row: u32, input: half) {
  for (var j = 0u; j < COLUMNS; j++) {
    (*sums)[j] = fma(vec4(input), weights[row + j], (*sums)[j]);
  }
}

fn network_rectify(sums: ptr<function, Hidden>) {
  for (var j = 0u; j < COLUMNS; j++) { (*sums)[j] = max((*sums)[j], vec4<half>()); }
}

// Replaces a hidden layer's activations by the next one's; `first` is where the matrix begins.
fn network_square(hidden: ptr<function, Hidden>, first: u32) {
  var sums: Hidden;
  for (var i = 0u; i < WIDTH; i++) {
    network_add(&sums, first + i * COLUMNS, (*hidden)[i / 4][i % 4]);
  }
  network_rectify(&sums);
  *hidden = sums;
}

// The density network's outputs for a point of [0, 1]^3.
fn network_embedding(unit: vec3<f32>) -> Embedding {
  var hidden: Hidden;
  for (var level = 0u; level < LEVELS; level++) {
    let features = hash_interpolate(level, unit);
    for (var i = 0u; i < FEATURES; i++) {
      let row = (level * FEATURES + i) * COLUMNS;
      network_add(&hidden, row, half(features[i / 2][i % 2]));
    }
  }
  network_rectify(&hidden);
  var next = LEVELS * FEATURES * COLUMNS;
  for (var layer = 1u; layer < DENSITY_LAYERS; layer++) {
    network_square(&hidden, next);
    next += SQUARE;
  }
  var embedding: Embedding;
  for (var i = 0u; i < WIDTH; i++) {
    let value = vec4(hidden[i / 4][i % 4]);
    for (var j = 0u; j < 4; j++) {
      embedding[j] = fma(value, weights[next + 4 * i + j], embedding[j]);
    }
  }
  return embedding;
}

// Density per scene unit.
fn network_density(embedding: Embedding) -> f32 {
  return exp(min(f32(embedding[0].x) - DENSITY_BIAS, MOST_LOGARITHM));
}

// What the direction adds to the first hidden layer of the colour network, the same for all samples
// of a ray.
fn network_direction(direction: vec3<f32>) -> Hidden {
  var sums: Hidden;
  var basis = spherical_harmonics(direction);
  for (var i = 0u; i < BASIS; i++) {
    network_add(&sums, DENSITY_WEIGHTS + (EMBEDDING + i) * COLUMNS, half(basis[i]));
  }
  return sums;
}

// Colour in [0, 1], from the density network's outputs and the direction's part.
fn network_colour(embedding: Embedding, direction: Hidden) -> vec3<f32> {
  var hidden = direction;
  var inputs = embedding;
  for (var i = 0u; i < EMBEDDING; i++) {
    network_add(&hidden, DENSITY_WEIGHTS + i * COLUMNS, inputs[i / 4][i % 4]);
  }
  network_rectify(&hidden);
  var next = DENSITY_WEIGHTS + (EMBEDDING + BASIS) * COLUMNS;
  for (var layer = 1u; layer < COLOUR_LAYERS; layer++) {
    network_square(&hidden, next);
    next += SQUARE;
  }
  var sum = vec4<half>();
  for (var i = 0u; i < WIDTH; i++) {  // three of the sixteen outputs are used
    sum = fma(vec4(hidden[i / 4][i % 4]), weights[next + 4 * i], sum);
  }
  return 1.0 / (1.0 + exp(-vec3<f32>(sum.xyz)));
}
