#include "tile.h"

// Forward and backward pass of one network on tiles. The matrices of the network are concatenated.
// The network has no biases, ReLU between layers, no activation after the last layer, and
// NETWORK_OUTPUTS outputs.

constexpr int networks_weights(int in, int width, int layers, int out) {
  return in * width + (layers - 1) * width * width + width * out;
}

// Activations of one network: the outputs of each layer after ReLU, and the sums of the last layer.
template <int IN, int WIDTH, int LAYERS, typename Stored>
METAL_FUNC void network_forward(uint local, thread Tile<IN>& x, Stored stored,
                                thread Tile<WIDTH>* hidden, thread Sums<NETWORK_OUTPUTS>& out) {
  Sums<WIDTH> sums;
  tile_multiply<IN, WIDTH>(local, x, stored, sums);
  tile_rectify(sums, hidden[0]);
  UNROLL
  for (int layer = 1; layer < LAYERS; ++layer) {
    tile_multiply<WIDTH, WIDTH>(
        local, hidden[layer - 1], stored + IN * WIDTH + (layer - 1) * WIDTH * WIDTH, sums);
    tile_rectify(sums, hidden[layer]);
  }
  tile_multiply<WIDTH, NETWORK_OUTPUTS>(
      local, hidden[LAYERS - 1], stored + IN * WIDTH + (LAYERS - 1) * WIDTH * WIDTH, out);
}

// The part of a network's weight gradient that one simdgroup computes.
template <int IN, int WIDTH, int LAYERS>
struct NetworkGradient {
  MatrixGradient<IN, WIDTH> first;
  MatrixGradient<WIDTH, WIDTH> square[LAYERS > 1 ? LAYERS - 1 : 1];
  MatrixGradient<WIDTH, NETWORK_OUTPUTS> last;
};

template <int IN, int WIDTH, int LAYERS, typename Out>
METAL_FUNC void network_gradient_start(
    thread NetworkGradient<IN, WIDTH, LAYERS>& gradient, Out out) {
  tile_gradient_start(gradient.first, out);
  UNROLL
  for (int layer = 1; layer < LAYERS; ++layer) {
    tile_gradient_start(gradient.square[layer - 1], out + IN * WIDTH + (layer - 1) * WIDTH * WIDTH);
  }
  tile_gradient_start(gradient.last, out + IN * WIDTH + (LAYERS - 1) * WIDTH * WIDTH);
}

template <int IN, int WIDTH, int LAYERS, typename Out>
METAL_FUNC void network_gradient_store(
    uint local, thread NetworkGradient<IN, WIDTH, LAYERS>& gradient, Out out) {
  tile_gradient_store(local, gradient.first, out);
  UNROLL
  for (int layer = 1; layer < LAYERS; ++layer) {
    tile_gradient_store(
        local, gradient.square[layer - 1], out + IN * WIDTH + (layer - 1) * WIDTH * WIDTH);
  }
  tile_gradient_store(local, gradient.last, out + IN * WIDTH + (LAYERS - 1) * WIDTH * WIDTH);
}

// Backward pass through one network: d is the gradient of its outputs, and d_x is the gradient of
// its inputs.
template <int IN, int WIDTH, int LAYERS, int PADDING, typename Transposed, typename Space>
METAL_FUNC void network_backward(
    uint local, thread Tile<IN>& x, thread Tile<WIDTH>* hidden, thread Tile<NETWORK_OUTPUTS>& d,
    Transposed transposed, thread NetworkGradient<IN, WIDTH, LAYERS>& gradient,
    thread Sums<IN>& d_x, Space space) {
  Sums<WIDTH> sums;
  Tile<WIDTH> d_hidden;
  tile_gradient<WIDTH, NETWORK_OUTPUTS, PADDING>(local, hidden[LAYERS - 1], d, gradient.last, space);
  tile_multiply<NETWORK_OUTPUTS, WIDTH>(
      local, d, transposed + IN * WIDTH + (LAYERS - 1) * WIDTH * WIDTH, sums);
  tile_gate(sums, hidden[LAYERS - 1], d_hidden);
  UNROLL
  for (int layer = LAYERS - 1; layer > 0; --layer) {
    tile_gradient<WIDTH, WIDTH, PADDING>(
        local, hidden[layer - 1], d_hidden, gradient.square[layer - 1], space);
    tile_multiply<WIDTH, WIDTH>(
        local, d_hidden, transposed + IN * WIDTH + (layer - 1) * WIDTH * WIDTH, sums);
    tile_gate(sums, hidden[layer - 1], d_hidden);
  }
  tile_gradient<IN, WIDTH, PADDING>(local, x, d_hidden, gradient.first, space);
  tile_multiply<WIDTH, IN>(local, d_hidden, transposed, d_x);
}
