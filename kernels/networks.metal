#include "network.h"

// The two stacked networks in one pass (Mueller et al. 2022, section 5.4): features of a position
// to density and an embedding, the embedding and a basis of the direction to a colour. No biases,
// ReLU between layers. Activations never leave the simdgroup that computes them, sixteen samples at
// a time (tile.h), and the gradient computes them again rather than read them back.
//
// density holds the density network's matrices one after the other, each row-major (inputs,
// outputs), colour the colour network's; stored, both as tile.h wants them: all matrices, then all
// transposed.

// The element of an IN x OUT matrix, or of its transpose, that belongs at `index` of stored.
template <int IN, int OUT, bool IS_TRANSPOSED>
METAL_FUNC uint networks_element(uint index) {
  if (IS_TRANSPOSED) {
    const uint2 place = tile_place<OUT, IN>(index);
    return place.y * OUT + place.x;
  }
  const uint2 place = tile_place<IN, OUT>(index);
  return place.x * OUT + place.y;
}

// The same for a whole network's matrices.
template <int IN, int WIDTH, int LAYERS, int OUT, bool IS_TRANSPOSED>
METAL_FUNC uint networks_source(uint index) {
  constexpr uint FIRST = IN * WIDTH, SQUARE = WIDTH * WIDTH, LAST = FIRST + (LAYERS - 1) * SQUARE;
  if (index < FIRST) return networks_element<IN, WIDTH, IS_TRANSPOSED>(index);
  if (index >= LAST) return LAST + networks_element<WIDTH, OUT, IS_TRANSPOSED>(index - LAST);
  const uint begin = FIRST + (index - FIRST) / SQUARE * SQUARE;
  return begin + networks_element<WIDTH, WIDTH, IS_TRANSPOSED>(index - begin);
}

// One thread an element of stored.
template <int IN, int WIDTH, int DENSITY_LAYERS, int COLOUR_LAYERS, typename Density,
          typename Colour, typename Stored>
METAL_FUNC void networks_store(
    uint3 thread_index, int count, Density density, Colour colour, Stored stored) {
  constexpr uint FIRST = networks_weights(IN, WIDTH, DENSITY_LAYERS, 16);
  constexpr uint ALL = FIRST + networks_weights(32, WIDTH, COLOUR_LAYERS, 16);
  if (thread_index.x >= 2 * ALL) return;
  const bool is_transposed = thread_index.x >= ALL;
  const uint index = is_transposed ? thread_index.x - ALL : thread_index.x;
  uint source;
  if (index < FIRST) {
    source = is_transposed ? networks_source<IN, WIDTH, DENSITY_LAYERS, 16, true>(index)
                           : networks_source<IN, WIDTH, DENSITY_LAYERS, 16, false>(index);
    stored[thread_index.x] = tile_value(density[source]);
  } else {
    source = is_transposed ? networks_source<32, WIDTH, COLOUR_LAYERS, 16, true>(index - FIRST)
                           : networks_source<32, WIDTH, COLOUR_LAYERS, 16, false>(index - FIRST);
    stored[thread_index.x] = tile_value(colour[source]);
  }
}

// Rows of a tile from memory; those past `valid` are zero, whatever stands there.
template <typename Values>
struct NetworkRows {
  Values values;
  int columns, valid;
  METAL_FUNC float operator()(int row, int column) const {
    return row < valid ? float(values[row * columns + column]) : 0.0f;
  }
};

template <typename Values>
METAL_FUNC NetworkRows<Values> network_rows(Values values, int columns, int valid) {
  return NetworkRows<Values>{values, columns, valid};
}

// The direction's basis of each row's ray.
template <typename Basis, typename Ray>
struct NetworkBasis {
  Basis basis;
  Ray ray;
  int valid;
  METAL_FUNC float operator()(int row, int column) const {
    return row < valid ? float(basis[16 * ray[row] + column]) : 0.0f;
  }
};

template <typename Values>
struct NetworkDensity {
  Values density;
  int valid;
  METAL_FUNC float operator()(int row, int column, float value) const {
    if (column == 0 && row < valid) density[row] = exp(value);
    return value;
  }
};

template <typename Values>
METAL_FUNC NetworkDensity<Values> network_density(Values density, int valid) {
  return NetworkDensity<Values>{density, valid};
}

template <typename Values>
struct NetworkColour {
  Values colour;
  int valid;
  METAL_FUNC float operator()(int row, int column, float value) const {
    if (column < 3 && row < valid) colour[3 * row + column] = 1.0f / (1.0f + exp(-value));
    return value;
  }
};

template <typename Values>
METAL_FUNC NetworkColour<Values> network_colour(Values colour, int valid) {
  return NetworkColour<Values>{colour, valid};
}

// Turns the colour network's sums into their gradient.
template <typename Gradient>
struct NetworkColourGradient {
  Gradient d_colour;
  int valid;
  METAL_FUNC float operator()(int row, int column, float value) const {
    if (column >= 3 || row >= valid) return 0.0f;
    const float colour = 1.0f / (1.0f + exp(-value));
    return float(d_colour[3 * row + column]) * colour * (1.0f - colour);
  }
};

// Turns the density network's sums into the gradient that they get from the density; the derivative
// of exp is that at the nearest point of [-15, 15].
template <typename Gradient>
struct NetworkDensityGradient {
  Gradient d_density;
  int valid;
  METAL_FUNC float operator()(int row, int column, float value) const {
    if (column != 0 || row >= valid) return 0.0f;
    return float(d_density[row]) * exp(clamp(value, -15.0f, 15.0f));
  }
};

template <typename Values>
struct NetworkStore {
  Values values;
  int columns, valid;
  METAL_FUNC float operator()(int row, int column, float value) const {
    if (row < valid) values[row * columns + column] = value;
    return value;
  }
};

// Density alone, of every row. A simdgroup works on sixteen rows.
template <int IN, int WIDTH, int DENSITY_LAYERS, typename Features, typename Stored,
          typename Density>
METAL_FUNC void networks_density(
    uint3 thread_index, int rows, Features features, Stored stored, Density density) {
  const uint local = thread_index.x % (SIMD_WIDTH * TILE_SIMDGROUPS);
  const int first = int(thread_index.x / SIMD_WIDTH) * 16, valid = rows - first;
  if (valid <= 0) return;
  Tile<IN> x;
  Tile<WIDTH> hidden[DENSITY_LAYERS];
  Sums<16> sums;
  tile_fill(local, x, network_rows(features + first * IN, IN, valid));
  network_forward<IN, WIDTH, DENSITY_LAYERS>(local, x, stored, hidden, sums);
  tile_each(local, sums, network_density(density + first, valid));
}

// Density and colour of the first used[0] rows; the others are left as they are.
template <int IN, int WIDTH, int DENSITY_LAYERS, int COLOUR_LAYERS, typename Features,
          typename Basis, typename Ray, typename Used, typename Stored, typename Density,
          typename Colour>
METAL_FUNC void networks_forward(
    uint3 thread_index, int rows, Features features, Basis basis, Ray ray, Used used, Stored stored,
    Density density, Colour colour) {
  const uint local = thread_index.x % (SIMD_WIDTH * TILE_SIMDGROUPS);
  const int first = int(thread_index.x / SIMD_WIDTH) * 16, valid = min(rows, used[0]) - first;
  if (valid <= 0) return;
  Tile<IN> x;
  Tile<WIDTH> hidden[DENSITY_LAYERS > COLOUR_LAYERS ? DENSITY_LAYERS : COLOUR_LAYERS];
  Tile<16> embedding, directions;
  Tile<32> joined;
  Sums<16> sums;
  tile_fill(local, x, network_rows(features + first * IN, IN, valid));
  network_forward<IN, WIDTH, DENSITY_LAYERS>(local, x, stored, hidden, sums);
  tile_each(local, sums, network_density(density + first, valid));
  tile_round(sums, embedding);
  tile_fill(local, directions, NetworkBasis<Basis, Ray>{basis, ray + first, valid});
  tile_join(embedding, directions, joined);
  network_forward<32, WIDTH, COLOUR_LAYERS>(
      local, joined, stored + networks_weights(IN, WIDTH, DENSITY_LAYERS, 16), hidden, sums);
  tile_each(local, sums, network_colour(colour + 3 * first, valid));
}

// Sums the weights' gradient of a threadgroup's tiles in the threadgroup's own row of d_weights,
// GROUPS rows in all, and writes every row of d_features; rows past used[0] have no gradient.
template <int IN, int WIDTH, int DENSITY_LAYERS, int COLOUR_LAYERS, int GROUPS, typename Features,
          typename Basis, typename Ray, typename Used, typename Stored, typename DensityGradient,
          typename ColourGradient, typename FeaturesGradient, typename WeightsGradient,
          typename Space>
METAL_FUNC void networks_gradient(
    uint3 thread_index, int rows, Features features, Basis basis, Ray ray, Used used, Stored stored,
    DensityGradient d_density, ColourGradient d_colour, FeaturesGradient d_features,
    WeightsGradient d_weights, Space space) {
  constexpr int FIRST = networks_weights(IN, WIDTH, DENSITY_LAYERS, 16);
  constexpr int ALL = FIRST + networks_weights(32, WIDTH, COLOUR_LAYERS, 16);
  const uint local = thread_index.x % (SIMD_WIDTH * TILE_SIMDGROUPS);
  const int group = int(thread_index.x / (SIMD_WIDTH * TILE_SIMDGROUPS));
  if (group >= GROUPS) return;
  NetworkGradient<IN, WIDTH, DENSITY_LAYERS> density_share;
  NetworkGradient<32, WIDTH, COLOUR_LAYERS> colour_share;
  network_gradient_start(density_share, d_weights + group * ALL);
  network_gradient_start(colour_share, d_weights + group * ALL + FIRST);

  constexpr int STRIDE = 16 * TILE_SIMDGROUPS;
  for (int begin = group * STRIDE; begin < rows; begin += GROUPS * STRIDE) {
    const int first = begin + int(local / SIMD_WIDTH) * 16;
    const int valid = min(rows, used[0]) - first;
    Sums<IN> d_x;
    bool is_zero = true;
    for (int row = int(local % SIMD_WIDTH); row < min(valid, 16); row += SIMD_WIDTH) {
      const int i = first + row;
      is_zero = is_zero && d_density[i] == 0.0f && d_colour[3 * i] == 0.0f &&
                d_colour[3 * i + 1] == 0.0f && d_colour[3 * i + 2] == 0.0f;
    }
    if (tile_any(local, !is_zero, space)) {
      Tile<IN> x;
      Tile<WIDTH> density_hidden[DENSITY_LAYERS], colour_hidden[COLOUR_LAYERS];
      Tile<16> embedding, directions, d;
      Tile<32> joined;
      Sums<16> density_sums, colour_sums;
      Sums<32> d_joined;
      tile_fill(local, x, network_rows(features + first * IN, IN, valid));
      network_forward<IN, WIDTH, DENSITY_LAYERS>(local, x, stored, density_hidden, density_sums);
      tile_round(density_sums, embedding);
      tile_fill(local, directions, NetworkBasis<Basis, Ray>{basis, ray + first, valid});
      tile_join(embedding, directions, joined);
      network_forward<32, WIDTH, COLOUR_LAYERS>(
          local, joined, stored + FIRST, colour_hidden, colour_sums);

      tile_each(local, colour_sums,
                NetworkColourGradient<ColourGradient>{d_colour + 3 * first, valid});
      tile_round(colour_sums, d);
      network_backward<32, WIDTH, COLOUR_LAYERS>(
          local, joined, colour_hidden, d, stored + ALL + FIRST, colour_share, d_joined, space);
      tile_each(local, density_sums,
                NetworkDensityGradient<DensityGradient>{d_density + first, valid});
      tile_add(density_sums, d_joined);
      tile_round(density_sums, d);
      network_backward<IN, WIDTH, DENSITY_LAYERS>(
          local, x, density_hidden, d, stored + ALL, density_share, d_x, space);
    } else {
      tile_clear(d_x);
    }
    tile_each(local, d_x,
              NetworkStore<FeaturesGradient>{d_features + first * IN, IN, rows - first});
  }
  network_gradient_store(local, density_share, d_weights + group * ALL);
  network_gradient_store(local, colour_share, d_weights + group * ALL + FIRST);
}
