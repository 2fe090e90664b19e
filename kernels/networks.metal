#include "network.h"
#include "network_rows.h"

// The density and color networks in one pass (Mueller et al. 2022, section 5.4). The density
// network maps the features of a position to a density and an embedding. The color network maps the
// embedding and the spherical harmonics of the direction to a color. Layers have no biases, and the
// activation between them is ReLU. A simdgroup computes all layers for sixteen samples at a time
// without storing activations in device memory (tile.h). The gradient kernel computes the
// activations again.
//
// density and color contain the concatenated matrices (inputs, outputs) of each network in
// row-major order. stored contains the matrices of both networks in the layout of tile.h: first all
// matrices, then all transposed matrices.

// Returns the element of an IN x OUT matrix, or of its transpose, that belongs at `index` of
// stored.
template <int IN, int OUT, bool IS_TRANSPOSED>
METAL_FUNC uint networks_element(uint index) {
  if (IS_TRANSPOSED) {
    const uint2 place = tile_place<OUT, IN>(index);
    return place.y * OUT + place.x;
  }
  const uint2 place = tile_place<IN, OUT>(index);
  return place.x * OUT + place.y;
}

// Returns the element that belongs at `index` of stored, for all matrices of a network.
template <int IN, int WIDTH, int LAYERS, int OUT, bool IS_TRANSPOSED>
METAL_FUNC uint networks_source(uint index) {
  constexpr uint FIRST = IN * WIDTH, SQUARE = WIDTH * WIDTH, LAST = FIRST + (LAYERS - 1) * SQUARE;
  if (index < FIRST) return networks_element<IN, WIDTH, IS_TRANSPOSED>(index);
  if (index >= LAST) return LAST + networks_element<WIDTH, OUT, IS_TRANSPOSED>(index - LAST);
  const uint begin = FIRST + (index - FIRST) / SQUARE * SQUARE;
  return begin + networks_element<WIDTH, WIDTH, IS_TRANSPOSED>(index - begin);
}

// Writes stored, with one thread per element.
template <int IN, int WIDTH, int DENSITY_LAYERS, int COLOR_LAYERS, typename Density,
          typename Color, typename Stored>
METAL_FUNC void networks_store(
    uint3 thread_index, int count, Density density, Color color, Stored stored) {
  constexpr uint FIRST = networks_weights(IN, WIDTH, DENSITY_LAYERS, NETWORK_OUTPUTS);
  constexpr uint ALL = FIRST + networks_weights(COLOR_INPUTS, WIDTH, COLOR_LAYERS, NETWORK_OUTPUTS);
  if (thread_index.x >= 2 * ALL) return;
  const bool is_transposed = thread_index.x >= ALL;
  const uint index = is_transposed ? thread_index.x - ALL : thread_index.x;
  uint source;
  if (index < FIRST) {
    source = is_transposed ? networks_source<IN, WIDTH, DENSITY_LAYERS, NETWORK_OUTPUTS, true>(index)
                           : networks_source<IN, WIDTH, DENSITY_LAYERS, NETWORK_OUTPUTS, false>(index);
    stored[thread_index.x] = tile_value(density[source]);
  } else {
    source =
        is_transposed
            ? networks_source<COLOR_INPUTS, WIDTH, COLOR_LAYERS, NETWORK_OUTPUTS, true>(index - FIRST)
            : networks_source<COLOR_INPUTS, WIDTH, COLOR_LAYERS, NETWORK_OUTPUTS, false>(index - FIRST);
    stored[thread_index.x] = tile_value(color[source]);
  }
}

// Maximum number of inputs of any layer of either network.
constexpr int networks_longest(int in, int width) {
  const int wider = in > width ? in : width;
  return wider > COLOR_INPUTS ? wider : COLOR_INPUTS;
}

// Computes only the density of the first used[0] rows. A simdgroup computes sixteen rows.
template <int IN, int WIDTH, int DENSITY_LAYERS, int DENSITY_BIAS, typename Features, typename Used,
          typename Stored, typename Density>
METAL_FUNC void networks_density(
    uint3 thread_index, int rows, Features features, Used used, Stored stored, Density density) {
  const uint local = thread_index.x % (SIMD_WIDTH * TILE_SIMDGROUPS);
  const int first = int(thread_index.x / SIMD_WIDTH) * TILE_ROWS;
  const TileBlock block{first, min(rows, used[0]) - first};
  if (block.count <= 0) return;
  Tile<IN> x;
  Tile<WIDTH> hidden[DENSITY_LAYERS];
  Sums<NETWORK_OUTPUTS> sums;
  tile_fill(local, x, block, network_read(features, IN));
  network_forward<IN, WIDTH, DENSITY_LAYERS>(local, x, stored, hidden, sums);
  tile_activate<1>(local, sums, NetworkExp<DENSITY_BIAS>{});
  tile_each<1>(local, sums, block, network_write(density, 1));
}

// Computes density and color of one tile. A function argument provides the ray directions of the
// rows.
template <int IN, int WIDTH, int DENSITY_LAYERS, int DENSITY_BIAS, int COLOR_LAYERS,
          typename Features, typename Directions, typename Stored, typename Density,
          typename Color>
METAL_FUNC void networks_tile(uint local, TileBlock rows, Features features, Directions directions,
                              Stored stored, Density density, Color color) {
  Tile<IN> x;
  Tile<WIDTH> hidden[DENSITY_LAYERS > COLOR_LAYERS ? DENSITY_LAYERS : COLOR_LAYERS];
  Tile<NETWORK_OUTPUTS> embedding;
  Tile<DIRECTION_FEATURES> basis;
  Tile<COLOR_INPUTS> joined;
  Sums<NETWORK_OUTPUTS> sums;
  tile_fill(local, x, rows, network_read(features, IN));
  network_forward<IN, WIDTH, DENSITY_LAYERS>(local, x, stored, hidden, sums);
  tile_round(sums, embedding);
  tile_activate<1>(local, sums, NetworkExp<DENSITY_BIAS>{});
  tile_each<1>(local, sums, rows, network_write(density, 1));
  tile_fill(local, basis, rows, directions);
  tile_join(embedding, basis, joined);
  network_forward<COLOR_INPUTS, WIDTH, COLOR_LAYERS>(
      local, joined, stored + networks_weights(IN, WIDTH, DENSITY_LAYERS, NETWORK_OUTPUTS), hidden, sums);
  tile_activate<3>(local, sums, NetworkSigmoid{});
  tile_each<3>(local, sums, rows, network_write(color, 3));
}

// Computes density and color of the first used[0] rows. Other rows are not written.
template <int IN, int WIDTH, int DENSITY_LAYERS, int DENSITY_BIAS, int COLOR_LAYERS,
          typename Features, typename Basis, typename Ray, typename Used, typename Stored,
          typename Density, typename Color>
METAL_FUNC void networks_forward(
    uint3 thread_index, int rows, Features features, Basis basis, Ray ray, Used used, Stored stored,
    Density density, Color color) {
  const uint local = thread_index.x % (SIMD_WIDTH * TILE_SIMDGROUPS);
  const int first = int(thread_index.x / SIMD_WIDTH) * TILE_ROWS;
  const TileBlock block{first, min(rows, used[0]) - first};
  if (block.count <= 0) return;
  networks_tile<IN, WIDTH, DENSITY_LAYERS, DENSITY_BIAS, COLOR_LAYERS>(
      local, block, features, network_basis(basis, ray), stored, density, color);
}

// Computes the gradients. d_weights has groups[0] rows, and each threadgroup writes the sum of the
// weight gradients of its tiles to a separate row. Every row of d_features is written. The
// gradients of rows after the first used[0] rows are zero. PADDING is the parameter of tile_space.
template <int IN, int WIDTH, int DENSITY_LAYERS, int DENSITY_BIAS, int COLOR_LAYERS, int PADDING,
          typename Features, typename Basis, typename Ray, typename Used, typename Stored,
          typename DensityGradient, typename ColorGradient, typename Groups,
          typename FeaturesGradient, typename WeightsGradient, typename Space>
METAL_FUNC void networks_gradient(
    uint3 thread_index, int rows, Features features, Basis basis, Ray ray, Used used, Stored stored,
    DensityGradient d_density, ColorGradient d_color, Groups groups, FeaturesGradient d_features,
    WeightsGradient d_weights, Space space) {
  constexpr int FIRST = networks_weights(IN, WIDTH, DENSITY_LAYERS, NETWORK_OUTPUTS);
  constexpr int ALL = FIRST + networks_weights(COLOR_INPUTS, WIDTH, COLOR_LAYERS, NETWORK_OUTPUTS);
  const uint local = thread_index.x % (SIMD_WIDTH * TILE_SIMDGROUPS);
  const int group = int(thread_index.x / (SIMD_WIDTH * TILE_SIMDGROUPS));
  if (group >= groups[0]) return;
  NetworkGradient<IN, WIDTH, DENSITY_LAYERS> density_gradient;
  NetworkGradient<COLOR_INPUTS, WIDTH, COLOR_LAYERS> color_gradient;
  network_gradient_start(density_gradient, d_weights + group * ALL);
  network_gradient_start(color_gradient, d_weights + group * ALL + FIRST);

  const int end = min(rows, used[0]);
  const NetworkClear<FeaturesGradient> clear{d_features, IN};
  for (int row = end + int(thread_index.x); row < rows;
       row += groups[0] * SIMD_WIDTH * TILE_SIMDGROUPS) {
    clear(row);
  }
  constexpr int ROWS = TILE_ROWS * TILE_SIMDGROUPS;
  const int stride = groups[0] * ROWS;
  const NetworkHasGradient<DensityGradient, ColorGradient> has_gradient{d_density, d_color};
  int next = group * ROWS;
  TileRows chosen;
  while (tile_choose(local, next, end, stride, has_gradient, clear, chosen, space)) {
    Tile<IN> x;
    Tile<WIDTH> density_hidden[DENSITY_LAYERS], color_hidden[COLOR_LAYERS];
    Tile<NETWORK_OUTPUTS> embedding, d;
    Tile<DIRECTION_FEATURES> directions;
    Tile<COLOR_INPUTS> joined;
    Sums<IN> d_x;
    Sums<NETWORK_OUTPUTS> density_sums, color_sums;
    Sums<COLOR_INPUTS> d_joined;
    tile_fill(local, x, chosen, network_read(features, IN));
    network_forward<IN, WIDTH, DENSITY_LAYERS>(local, x, stored, density_hidden, density_sums);
    tile_round(density_sums, embedding);
    tile_fill(local, directions, chosen, network_basis(basis, ray));
    tile_join(embedding, directions, joined);
    network_forward<COLOR_INPUTS, WIDTH, COLOR_LAYERS>(
        local, joined, stored + FIRST, color_hidden, color_sums);

    tile_activate<3>(local, color_sums, NetworkSigmoidSlope{});
    tile_each<3>(local, color_sums, chosen, network_scale(d_color, 3));
    tile_round(color_sums, d);
    network_backward<COLOR_INPUTS, WIDTH, COLOR_LAYERS, PADDING>(
        local, joined, color_hidden, d, stored + ALL + FIRST, color_gradient, d_joined, space);
    tile_activate<1>(local, density_sums, NetworkExpSlope<DENSITY_BIAS>{});
    tile_each<1>(local, density_sums, chosen, network_scale(d_density, 1));
    tile_add(density_sums, d_joined);
    tile_round(density_sums, d);
    network_backward<IN, WIDTH, DENSITY_LAYERS, PADDING>(
        local, x, density_hidden, d, stored + ALL, density_gradient, d_x, space);
    tile_each<IN>(local, d_x, chosen, network_write_gradient(d_features, IN));
  }
  network_gradient_store(local, density_gradient, d_weights + group * ALL);
  network_gradient_store(local, color_gradient, d_weights + group * ALL + FIRST);
}
