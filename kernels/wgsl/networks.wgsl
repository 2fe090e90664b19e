// The density and color networks; kernels/networks.metal in WGSL. A thread computes one sample.
//
// The activations of a layer are vectors of four. A matrix (inputs, outputs) is divided into blocks
// of 4 x 4, row by row: block (i, j) maps four inputs i to a part of four outputs j.

const COLUMNS = WIDTH / 4;                 // vectors of a hidden layer
const QUARTERS = LEVELS * FEATURES / 4;    // vectors of features
const SQUARE = COLUMNS * COLUMNS;
const DENSITY_BLOCKS = (QUARTERS + 4) * COLUMNS + (DENSITY_LAYERS - 1) * SQUARE;
const DIRECTION_BLOCKS = DENSITY_BLOCKS + 4 * COLUMNS;  // behind the embedding's rows

alias Hidden = array<vec4<half>, COLUMNS>;
alias Embedding = array<vec4<half>, 4>;

@group(0) @binding(5) var<storage, read> weights: array<mat4x4<half>>;

// Adds the contribution of four inputs to hidden layer sums; `first` is their first block.
fn network_add(sums: ptr<function, Hidden>, first: u32, inputs: vec4<half>) {
  for (var j = 0u; j < COLUMNS; j++) {
    (*sums)[j] += weights[first + j] * inputs;
  }
}

fn network_rectify(sums: ptr<function, Hidden>) {
  for (var j = 0u; j < COLUMNS; j++) {
    (*sums)[j] = max((*sums)[j], vec4<half>());
  }
}

// Replaces a hidden layer's activations by the next one's; `first` is the matrix' first block.
fn network_square(hidden: ptr<function, Hidden>, first: u32) {
  var sums: Hidden;
  for (var i = 0u; i < COLUMNS; i++) {
    network_add(&sums, first + i * COLUMNS, (*hidden)[i]);
  }
  network_rectify(&sums);
  *hidden = sums;
}

// The density network's outputs for a point of [0, 1]^3.
fn network_embedding(unit: vec3<f32>) -> Embedding {
  var hidden: Hidden;
  for (var quarter = 0u; quarter < QUARTERS; quarter++) {
    network_add(&hidden, quarter * COLUMNS, vec4<half>(hash_features(quarter, unit)));
  }
  network_rectify(&hidden);
  var next = QUARTERS * COLUMNS;
  for (var layer = 1u; layer < DENSITY_LAYERS; layer++) {
    network_square(&hidden, next);
    next += SQUARE;
  }
  var embedding: Embedding;
  for (var i = 0u; i < COLUMNS; i++) {
    embedding[0] += weights[next + 4 * i] * hidden[i];
    embedding[1] += weights[next + 4 * i + 1] * hidden[i];
    embedding[2] += weights[next + 4 * i + 2] * hidden[i];
    embedding[3] += weights[next + 4 * i + 3] * hidden[i];
  }
  return embedding;
}

// Density per scene unit.
fn network_density(embedding: Embedding) -> f32 {
  return exp(min(f32(embedding[0].x) - DENSITY_BIAS, DENSITY_LIMIT));
}

// Contribution of the direction to the first hidden layer of the color network. It is the same for
// all samples of a ray.
fn network_direction(direction: vec3<f32>) -> Hidden {
  var sums: Hidden;
  var basis = spherical_harmonics(direction);
  for (var i = 0u; i < 4; i++) {
    network_add(&sums, DIRECTION_BLOCKS + i * COLUMNS, vec4<half>(basis[i]));
  }
  return sums;
}

// Color in [0, 1], from the density network's outputs and the direction's part.
fn network_color(embedding: Embedding, direction: Hidden) -> vec3<f32> {
  var hidden = direction;
  var inputs = embedding;
  for (var i = 0u; i < 4; i++) {
    network_add(&hidden, DENSITY_BLOCKS + i * COLUMNS, inputs[i]);
  }
  network_rectify(&hidden);
  var next = DIRECTION_BLOCKS + 4 * COLUMNS;
  for (var layer = 1u; layer < COLOR_LAYERS; layer++) {
    network_square(&hidden, next);
    next += SQUARE;
  }
  var sum = vec4<half>();
  for (var i = 0u; i < COLUMNS; i++) {
    sum += weights[next + 4 * i] * hidden[i];  // three of the sixteen outputs are used
  }
  return 1.0 / (1.0 + exp(-vec3<f32>(sum.xyz)));
}
