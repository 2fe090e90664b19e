// A whole multilayer perceptron in one pass: no biases, ReLU between layers, none after the last.
//
// weights holds the layers' matrices one after the other, each row-major (inputs, outputs):
// IN x HIDDEN, then HIDDEN_LAYERS - 1 times HIDDEN x HIDDEN, then HIDDEN x OUT. A thread works on tiles of ROWS
// rows, whose activations never leave its own memory; a vector of LANES neighbouring neurons is the
// unit of arithmetic, so HIDDEN, OUT and (for the gradient) IN are multiples of LANES.

// out (ROWS x OUT) = x (ROWS x IN) times matrix (IN x OUT).
template <int ROWS, int IN, int OUT, typename Matrix>
METAL_FUNC void mlp_multiply(thread const float* x, Matrix matrix, thread float* out) {
  constexpr int COLUMNS = OUT / LANES;
  constexpr int BLOCK = COLUMNS < 16 && ROWS % (16 / COLUMNS) == 0 ? 16 / COLUMNS : 1;
  for (int row = 0; row < ROWS; row += BLOCK) {
    lanes sum[BLOCK][COLUMNS] = {};
    for (int i = 0; i < IN; ++i) {
      UNROLL
      for (int column = 0; column < COLUMNS; ++column) {
        const lanes weight = load_lanes(matrix + i * OUT + column * LANES);
        UNROLL
        for (int b = 0; b < BLOCK; ++b) {
          sum[b][column] = x[(row + b) * IN + i] * weight + sum[b][column];
        }
      }
    }
    UNROLL
    for (int b = 0; b < BLOCK; ++b) {
      UNROLL
      for (int column = 0; column < COLUMNS; ++column) {
        store_lanes(out + (row + b) * OUT + column * LANES, sum[b][column]);
      }
    }
  }
}

// matrix (IN x OUT) += transposed x (ROWS x IN) times d (ROWS x OUT).
template <int ROWS, int IN, int OUT, typename Matrix>
METAL_FUNC void mlp_accumulate(thread const float* x, thread const float* d, Matrix matrix) {
  constexpr int COLUMNS = OUT / LANES;
  constexpr int BLOCK = COLUMNS < 16 && IN % (16 / COLUMNS) == 0 ? 16 / COLUMNS : 1;
  for (int i = 0; i < IN; i += BLOCK) {
    lanes sum[BLOCK][COLUMNS];
    UNROLL
    for (int b = 0; b < BLOCK; ++b) {
      UNROLL
      for (int column = 0; column < COLUMNS; ++column) {
        sum[b][column] = load_lanes(matrix + (i + b) * OUT + column * LANES);
      }
    }
    for (int row = 0; row < ROWS; ++row) {
      UNROLL
      for (int column = 0; column < COLUMNS; ++column) {
        const lanes slope = load_lanes(d + row * OUT + column * LANES);
        UNROLL
        for (int b = 0; b < BLOCK; ++b) {
          sum[b][column] = x[row * IN + i + b] * slope + sum[b][column];
        }
      }
    }
    UNROLL
    for (int b = 0; b < BLOCK; ++b) {
      UNROLL
      for (int column = 0; column < COLUMNS; ++column) {
        store_lanes(matrix + (i + b) * OUT + column * LANES, sum[b][column]);
      }
    }
  }
}

// Rows past the last one read as zero.
template <int ROWS, int WIDTH, typename Values>
METAL_FUNC void mlp_load(Values values, int first, int rows, thread float* tile) {
  const int valid = min(ROWS, rows - first) * WIDTH;
  for (int i = 0; i < ROWS * WIDTH; ++i) tile[i] = i < valid ? float(values[first * WIDTH + i]) : 0.0f;
}

template <int ROWS, int WIDTH, typename Values>
METAL_FUNC void mlp_store(thread const float* tile, int first, int rows, Values values) {
  const int valid = min(ROWS, rows - first) * WIDTH;
  for (int i = 0; i < valid; ++i) values[first * WIDTH + i] = tile[i];
}

// Evaluates a tile; hidden receives every hidden layer's activations, one after the other.
template <int ROWS, int IN, int HIDDEN, int HIDDEN_LAYERS, int OUT, typename Weights>
METAL_FUNC void mlp_evaluate(
    thread const float* x, Weights weights, thread float* hidden, thread float* out) {
  mlp_multiply<ROWS, IN, HIDDEN>(x, weights, hidden);
  for (int i = 0; i < ROWS * HIDDEN; ++i) hidden[i] = max(hidden[i], 0.0f);
  for (int layer = 1; layer < HIDDEN_LAYERS; ++layer) {
    thread float* below = hidden + (layer - 1) * ROWS * HIDDEN;
    thread float* above = hidden + layer * ROWS * HIDDEN;
    mlp_multiply<ROWS, HIDDEN, HIDDEN>(
        below, weights + IN * HIDDEN + (layer - 1) * HIDDEN * HIDDEN, above);
    for (int i = 0; i < ROWS * HIDDEN; ++i) above[i] = max(above[i], 0.0f);
  }
  mlp_multiply<ROWS, HIDDEN, OUT>(
      hidden + (HIDDEN_LAYERS - 1) * ROWS * HIDDEN,
      weights + IN * HIDDEN + (HIDDEN_LAYERS - 1) * HIDDEN * HIDDEN, out);
}

// One thread a tile.
template <int ROWS, int IN, int HIDDEN, int HIDDEN_LAYERS, int OUT, typename Inputs, typename Weights,
          typename Outputs>
METAL_FUNC void mlp_forward(
    uint3 thread_index, int rows, Inputs inputs, Weights weights, Outputs outputs) {
  const int first = int(thread_index.x) * ROWS;
  if (first >= rows) return;
  float x[ROWS * IN], hidden[HIDDEN_LAYERS * ROWS * HIDDEN], out[ROWS * OUT];
  mlp_load<ROWS, IN>(inputs, first, rows, x);
  mlp_evaluate<ROWS, IN, HIDDEN, HIDDEN_LAYERS, OUT>(x, weights, hidden, out);
  mlp_store<ROWS, OUT>(out, first, rows, outputs);
}

// One thread a group of tiles, THREADS in all: it evaluates them again rather than read stored
// activations, and sums the weights' gradient over its tiles in its own row of weights_gradient.
// transposed holds the same matrices as weights, each one transposed.
template <int ROWS, int IN, int HIDDEN, int HIDDEN_LAYERS, int OUT, int THREADS, typename Inputs,
          typename Weights, typename Transposed, typename Gradient, typename InputsGradient,
          typename WeightsGradient>
METAL_FUNC void mlp_gradient(
    uint3 thread_index, int rows, Inputs inputs, Weights weights, Transposed transposed,
    Gradient gradient, InputsGradient inputs_gradient, WeightsGradient weights_gradient) {
  if (thread_index.x >= uint(THREADS)) return;
  constexpr int SQUARE = HIDDEN * HIDDEN, LAST = IN * HIDDEN + (HIDDEN_LAYERS - 1) * SQUARE;
  float x[ROWS * IN], hidden[HIDDEN_LAYERS * ROWS * HIDDEN], out[ROWS * OUT];
  float d_out[ROWS * OUT], d_hidden[2][ROWS * HIDDEN], d_x[ROWS * IN];
  const int own = int(thread_index.x) * (LAST + HIDDEN * OUT);
  for (int i = 0; i < LAST + HIDDEN * OUT; ++i) weights_gradient[own + i] = 0.0f;

  for (int first = int(thread_index.x) * ROWS; first < rows; first += THREADS * ROWS) {
    mlp_load<ROWS, OUT>(gradient, first, rows, d_out);
    bool is_zero = true;
    for (int i = 0; i < ROWS * OUT; ++i) is_zero = is_zero & (d_out[i] == 0.0f);
    if (is_zero) {
      for (int i = 0; i < ROWS * IN; ++i) d_x[i] = 0.0f;
      mlp_store<ROWS, IN>(d_x, first, rows, inputs_gradient);
      continue;
    }
    mlp_load<ROWS, IN>(inputs, first, rows, x);
    mlp_evaluate<ROWS, IN, HIDDEN, HIDDEN_LAYERS, OUT>(x, weights, hidden, out);

    thread float* top = hidden + (HIDDEN_LAYERS - 1) * ROWS * HIDDEN;
    mlp_accumulate<ROWS, HIDDEN, OUT>(top, d_out, weights_gradient + own + LAST);
    mlp_multiply<ROWS, OUT, HIDDEN>(d_out, transposed + LAST, d_hidden[0]);
    for (int i = 0; i < ROWS * HIDDEN; ++i) d_hidden[0][i] = top[i] > 0.0f ? d_hidden[0][i] : 0.0f;
    int now = 0;
    for (int layer = HIDDEN_LAYERS - 1; layer > 0; --layer) {
      thread float* below = hidden + (layer - 1) * ROWS * HIDDEN;
      const int matrix = IN * HIDDEN + (layer - 1) * SQUARE;
      mlp_accumulate<ROWS, HIDDEN, HIDDEN>(below, d_hidden[now], weights_gradient + own + matrix);
      mlp_multiply<ROWS, HIDDEN, HIDDEN>(d_hidden[now], transposed + matrix, d_hidden[1 - now]);
      now = 1 - now;
      for (int i = 0; i < ROWS * HIDDEN; ++i) {
        d_hidden[now][i] = below[i] > 0.0f ? d_hidden[now][i] : 0.0f;
      }
    }
    mlp_accumulate<ROWS, IN, HIDDEN>(x, d_hidden[now], weights_gradient + own);
    mlp_multiply<ROWS, HIDDEN, IN>(d_hidden[now], transposed, d_x);
    mlp_store<ROWS, IN>(d_x, first, rows, inputs_gradient);
  }
}
