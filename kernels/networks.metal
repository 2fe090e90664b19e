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

// The rows of a tile that are neighbours: `count` of them, the first of which is row `first`. What
// stands in the tile's other rows is zero, or nobody's.
struct NetworkBlock {
  int first, count;
  METAL_FUNC int operator[](int row) const { return first + row; }
};

// A tile's rows from memory.
template <typename Values, typename Rows>
struct NetworkRows {
  Values values;
  int columns;
  Rows rows;
  METAL_FUNC float operator()(int row, int column) const {
    return row < rows.count ? float(values[rows[row] * columns + column]) : 0.0f;
  }
};

template <typename Values, typename Rows>
METAL_FUNC NetworkRows<Values, Rows> network_rows(Values values, int columns, Rows rows) {
  return NetworkRows<Values, Rows>{values, columns, rows};
}

// The direction's basis of each row's ray.
template <typename Basis, typename Ray, typename Rows>
struct NetworkBasis {
  Basis basis;
  Ray ray;
  Rows rows;
  METAL_FUNC float operator()(int row, int column) const {
    return row < rows.count ? float(basis[16 * ray[rows[row]] + column]) : 0.0f;
  }
};

template <typename Basis, typename Ray, typename Rows>
METAL_FUNC NetworkBasis<Basis, Ray, Rows> network_basis(Basis basis, Ray ray, Rows rows) {
  return NetworkBasis<Basis, Ray, Rows>{basis, ray, rows};
}

template <typename Values>
struct NetworkDensity {
  Values density;
  NetworkBlock rows;
  METAL_FUNC float operator()(int row, int column, float value) const {
    if (column == 0 && row < rows.count) density[rows[row]] = exp(value);
    return value;
  }
};

template <typename Values>
METAL_FUNC NetworkDensity<Values> network_density(Values density, NetworkBlock rows) {
  return NetworkDensity<Values>{density, rows};
}

template <typename Values>
struct NetworkColour {
  Values colour;
  NetworkBlock rows;
  METAL_FUNC float operator()(int row, int column, float value) const {
    if (column < 3 && row < rows.count) {
      colour[3 * rows[row] + column] = 1.0f / (1.0f + exp(-value));
    }
    return value;
  }
};

template <typename Values>
METAL_FUNC NetworkColour<Values> network_colour(Values colour, NetworkBlock rows) {
  return NetworkColour<Values>{colour, rows};
}

// Turns the colour network's sums into their gradient.
template <typename Gradient, typename Rows>
struct NetworkColourGradient {
  Gradient d_colour;
  Rows rows;
  METAL_FUNC float operator()(int row, int column, float value) const {
    if (column >= 3 || row >= rows.count) return 0.0f;
    const float colour = 1.0f / (1.0f + exp(-value));
    return float(d_colour[3 * rows[row] + column]) * colour * (1.0f - colour);
  }
};

// Turns the density network's sums into the gradient that they get from the density; the derivative
// of exp is that at the nearest point of [-15, 15].
template <typename Gradient, typename Rows>
struct NetworkDensityGradient {
  Gradient d_density;
  Rows rows;
  METAL_FUNC float operator()(int row, int column, float value) const {
    if (column != 0 || row >= rows.count) return 0.0f;
    return float(d_density[rows[row]]) * exp(clamp(value, -15.0f, 15.0f));
  }
};

// Writes the features' gradient.
template <typename Values, typename Rows>
struct NetworkFeaturesGradient {
  Values d_features;
  int columns;
  Rows rows;
  METAL_FUNC float operator()(int row, int column, float value) const {
    if (row < rows.count) d_features[rows[row] * columns + column] = value;
    return value;
  }
};

// Whether a row has a gradient.
template <typename DensityGradient, typename ColourGradient>
struct NetworkHasGradient {
  DensityGradient d_density;
  ColourGradient d_colour;
  METAL_FUNC bool operator()(int row) const {
    return d_density[row] != 0.0f || d_colour[3 * row] != 0.0f || d_colour[3 * row + 1] != 0.0f ||
           d_colour[3 * row + 2] != 0.0f;
  }
};

// Makes zero of a row of `columns`.
template <typename Values>
struct NetworkClear {
  Values values;
  int columns;
  METAL_FUNC void operator()(int row) const {
    for (int i = 0; i < columns; ++i) values[row * columns + i] = 0.0f;
  }
};

// Density alone, of every row. A simdgroup works on sixteen rows.
template <int IN, int WIDTH, int DENSITY_LAYERS, typename Features, typename Stored,
          typename Density>
METAL_FUNC void networks_density(
    uint3 thread_index, int rows, Features features, Stored stored, Density density) {
  const uint local = thread_index.x % (SIMD_WIDTH * TILE_SIMDGROUPS);
  const int first = int(thread_index.x / SIMD_WIDTH) * 16;
  const NetworkBlock block{first, rows - first};
  if (block.count <= 0) return;
  Tile<IN> x;
  Tile<WIDTH> hidden[DENSITY_LAYERS];
  Sums<16> sums;
  tile_fill(local, x, network_rows(features, IN, block));
  network_forward<IN, WIDTH, DENSITY_LAYERS>(local, x, stored, hidden, sums);
  tile_each(local, sums, network_density(density, block));
}

// Density and colour of one tile: what its rows' features and directions are, and where the results
// go, as functions.
template <int IN, int WIDTH, int DENSITY_LAYERS, int COLOUR_LAYERS, typename Features,
          typename Directions, typename Stored, typename Density, typename Colour>
METAL_FUNC void networks_tile(uint local, Features features, Directions directions, Stored stored,
                              Density density, Colour colour) {
  Tile<IN> x;
  Tile<WIDTH> hidden[DENSITY_LAYERS > COLOUR_LAYERS ? DENSITY_LAYERS : COLOUR_LAYERS];
  Tile<16> embedding, basis;
  Tile<32> joined;
  Sums<16> sums;
  tile_fill(local, x, features);
  network_forward<IN, WIDTH, DENSITY_LAYERS>(local, x, stored, hidden, sums);
  tile_each(local, sums, density);
  tile_round(sums, embedding);
  tile_fill(local, basis, directions);
  tile_join(embedding, basis, joined);
  network_forward<32, WIDTH, COLOUR_LAYERS>(
      local, joined, stored + networks_weights(IN, WIDTH, DENSITY_LAYERS, 16), hidden, sums);
  tile_each(local, sums, colour);
}

// Density and colour of the first used[0] rows; the others are left as they are.
template <int IN, int WIDTH, int DENSITY_LAYERS, int COLOUR_LAYERS, typename Features,
          typename Basis, typename Ray, typename Used, typename Stored, typename Density,
          typename Colour>
METAL_FUNC void networks_forward(
    uint3 thread_index, int rows, Features features, Basis basis, Ray ray, Used used, Stored stored,
    Density density, Colour colour) {
  const uint local = thread_index.x % (SIMD_WIDTH * TILE_SIMDGROUPS);
  const int first = int(thread_index.x / SIMD_WIDTH) * 16;
  const NetworkBlock block{first, min(rows, used[0]) - first};
  if (block.count <= 0) return;
  networks_tile<IN, WIDTH, DENSITY_LAYERS, COLOUR_LAYERS>(
      local, network_rows(features, IN, block), network_basis(basis, ray, block), stored,
      network_density(density, block), network_colour(colour, block));
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

  const int end = min(rows, used[0]);
  const NetworkClear<FeaturesGradient> clear{d_features, IN};
  for (int row = end + int(thread_index.x); row < rows;
       row += GROUPS * SIMD_WIDTH * TILE_SIMDGROUPS) {
    clear(row);
  }
  constexpr int STRIDE = 16 * TILE_SIMDGROUPS;
  const NetworkHasGradient<DensityGradient, ColourGradient> has_gradient{d_density, d_colour};
  int next = group * STRIDE;
  TileRows chosen;
  while (tile_choose(local, next, end, GROUPS * STRIDE, has_gradient, clear, chosen, space)) {
    Tile<IN> x;
    Tile<WIDTH> density_hidden[DENSITY_LAYERS], colour_hidden[COLOUR_LAYERS];
    Tile<16> embedding, directions, d;
    Tile<32> joined;
    Sums<IN> d_x;
    Sums<16> density_sums, colour_sums;
    Sums<32> d_joined;
    tile_fill(local, x, network_rows(features, IN, chosen));
    network_forward<IN, WIDTH, DENSITY_LAYERS>(local, x, stored, density_hidden, density_sums);
    tile_round(density_sums, embedding);
    tile_fill(local, directions, network_basis(basis, ray, chosen));
    tile_join(embedding, directions, joined);
    network_forward<32, WIDTH, COLOUR_LAYERS>(
        local, joined, stored + FIRST, colour_hidden, colour_sums);

    tile_each(local, colour_sums,
              NetworkColourGradient<ColourGradient, TileRows>{d_colour, chosen});
    tile_round(colour_sums, d);
    network_backward<32, WIDTH, COLOUR_LAYERS>(
        local, joined, colour_hidden, d, stored + ALL + FIRST, colour_share, d_joined, space);
    tile_each(local, density_sums,
              NetworkDensityGradient<DensityGradient, TileRows>{d_density, chosen});
    tile_add(density_sums, d_joined);
    tile_round(density_sums, d);
    network_backward<IN, WIDTH, DENSITY_LAYERS>(
        local, x, density_hidden, d, stored + ALL, density_share, d_x, space);
    tile_each(local, d_x,
              NetworkFeaturesGradient<FeaturesGradient, TileRows>{d_features, IN, chosen});
  }
  network_gradient_store(local, density_share, d_weights + group * ALL);
  network_gradient_store(local, colour_share, d_weights + group * ALL + FIRST);
}
