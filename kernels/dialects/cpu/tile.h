// Tiles on a CPU: plain arrays of floats. Rows are divided into vectors of LANES neighbors. A
// simdgroup is one thread and a threadgroup is one simdgroup, so threads share no memory.

#include "tile_block.h"

#define TRACE_RAYS 16

// A register holds LANES floats, and matrix products keep sums in SUM_REGISTERS registers. Vectors
// must not be longer than a register, because GCC keeps longer vectors in memory: with AVX2 and 16
// lanes, networks were ten times slower.
#if defined(__AVX512F__)
#define LANES 16
#define SUM_REGISTERS 16
#elif defined(__AVX__)
#define LANES 8
#define SUM_REGISTERS 8
#else
#define LANES 4
#define SUM_REGISTERS 16
#endif

typedef float lanes __attribute__((vector_size(4 * LANES)));

// The same anywhere in memory, over plain floats.
typedef float packed_lanes __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

METAL_FUNC lanes load_lanes(const float* from) {
  return *reinterpret_cast<const packed_lanes*>(from);
}
METAL_FUNC void store_lanes(float* to, lanes value) {
  *reinterpret_cast<packed_lanes*>(to) = value;
}

METAL_FUNC lanes clamp(lanes x, float low, float high) {
  const lanes above = x < low ? lanes{} + low : x;
  return above > high ? lanes{} + high : above;
}

METAL_FUNC lanes exp(lanes x) {
  typedef int whole_lanes __attribute__((vector_size(4 * LANES)));
  return vector_exp<lanes, whole_lanes>(x);
}

typedef float tile_value;

template <int COLUMNS>
struct Tile {
  float at[16 * COLUMNS];
};

template <int COLUMNS>
using Sums = Tile<COLUMNS>;

// A matrix is stored row by row: position of element `index`.
template <int IN, int OUT>
METAL_FUNC uint2 tile_place(uint index) {
  return uint2{index / OUT, index % OUT};
}

// Number of rows, a divisor of 16, of `columns` vectors whose sums fit into registers.
constexpr int rows_in_registers(int columns) {
  int rows = SUM_REGISTERS;
  while (rows > 1 && rows * columns > SUM_REGISTERS) rows /= 2;
  return rows;
}

template <int IN, int OUT>
METAL_FUNC void tile_multiply(uint, const Tile<IN>& x, const float* matrix, Sums<OUT>& out) {
  constexpr int COLUMNS = OUT / LANES;
  constexpr int ROWS = rows_in_registers(COLUMNS);
  for (int row = 0; row < 16; row += ROWS) {
    lanes sum[ROWS][COLUMNS] = {};
    for (int i = 0; i < IN; ++i) {
      UNROLL
      for (int column = 0; column < COLUMNS; ++column) {
        const lanes weight = load_lanes(matrix + i * OUT + column * LANES);
        UNROLL
        for (int r = 0; r < ROWS; ++r) {
          sum[r][column] = x.at[(row + r) * IN + i] * weight + sum[r][column];
        }
      }
    }
    UNROLL
    for (int r = 0; r < ROWS; ++r) {
      UNROLL
      for (int column = 0; column < COLUMNS; ++column) {
        store_lanes(out.at + (row + r) * OUT + column * LANES, sum[r][column]);
      }
    }
  }
}

// Sets the values of the first COUNT columns to function(row, column, value) in existing rows, and
// all other values to zero.
template <int COUNT, int COLUMNS, typename Rows, typename Function>
METAL_FUNC void tile_each(uint, Sums<COLUMNS>& sums, const Rows& rows, Function function) {
  for (int row = 0; row < 16; ++row) {
    float* values = sums.at + row * COLUMNS;
    const int count = row < rows.count ? COUNT : 0;
    if (row < rows.count) {
      const int place = rows[row];
      for (int column = 0; column < COUNT; ++column) {
        values[column] = function(place, column, values[column]);
      }
    }
    for (int column = count; column < COLUMNS; ++column) values[column] = 0.0f;
  }
}

// Sets the values of the first COUNT columns to function(value), LANES values of a column at once.
template <int COUNT, int COLUMNS, typename Function>
METAL_FUNC void tile_activate(uint, Sums<COLUMNS>& sums, Function function) {
  for (int column = 0; column < COUNT; ++column) {
    for (int first = 0; first < 16; first += LANES) {
      float* const at = sums.at + first * COLUMNS + column;
      lanes values;
      for (int row = 0; row < LANES; ++row) values[row] = at[row * COLUMNS];
      values = function(values);
      for (int row = 0; row < LANES; ++row) at[row * COLUMNS] = values[row];
    }
  }
}

// The values of the rows, read from places(row); zero in rows that do not exist.
template <int COLUMNS, typename Rows, typename Places>
METAL_FUNC void tile_fill(uint, Tile<COLUMNS>& tile, const Rows& rows, Places places) {
  for (int row = 0; row < 16; ++row) {
    float* values = tile.at + row * COLUMNS;
    if (row < rows.count) {
      std::memcpy(values, places(rows[row]), COLUMNS * sizeof(float));
    } else {
      std::memset(values, 0, COLUMNS * sizeof(float));
    }
  }
}

template <int COLUMNS>
METAL_FUNC void tile_round(const Sums<COLUMNS>& sums, Tile<COLUMNS>& tile) {
  tile = sums;
}

// ReLU. It propagates NaN, so that training detects a diverged run.
template <int COLUMNS>
METAL_FUNC void tile_rectify(const Sums<COLUMNS>& sums, Tile<COLUMNS>& tile) {
  for (int i = 0; i < 16 * COLUMNS; ++i) tile.at[i] = sums.at[i] < 0.0f ? 0.0f : sums.at[i];
}

template <int COLUMNS>
METAL_FUNC void tile_gate(const Sums<COLUMNS>& d, const Tile<COLUMNS>& active, Tile<COLUMNS>& out) {
  for (int i = 0; i < 16 * COLUMNS; ++i) out.at[i] = active.at[i] > 0.0f ? d.at[i] : 0.0f;
}

// Adds the first columns of `more`.
template <int COLUMNS, int MORE>
METAL_FUNC void tile_add(Sums<COLUMNS>& sums, const Sums<MORE>& more) {
  for (int row = 0; row < 16; ++row) {
    for (int i = 0; i < COLUMNS; ++i) sums.at[row * COLUMNS + i] += more.at[row * MORE + i];
  }
}

template <int LEFT, int RIGHT>
METAL_FUNC void tile_join(
    const Tile<LEFT>& left, const Tile<RIGHT>& right, Tile<LEFT + RIGHT>& out) {
  for (int row = 0; row < 16; ++row) {
    for (int i = 0; i < LEFT; ++i) out.at[row * (LEFT + RIGHT) + i] = left.at[row * LEFT + i];
    for (int i = 0; i < RIGHT; ++i) {
      out.at[row * (LEFT + RIGHT) + LEFT + i] = right.at[row * RIGHT + i];
    }
  }
}

// The rows of a tile, from any positions.
struct TileRows {
  int at[16], count;
  METAL_FUNC int operator[](int row) const { return at[row]; }
};

// Chooses the wanted rows of the next tile from row `next` on: sixteen neighbors, then the ones
// `stride` further on. leave_out(row) is called for the others. False if no row is left.
template <typename Wanted, typename LeaveOut>
METAL_FUNC bool tile_choose(uint, int& next, int end, int stride, Wanted wanted, LeaveOut leave_out,
                            TileRows& rows, tile_value*) {
  rows.count = 0;
  while (next < end && rows.count < 16) {
    if (wanted(next)) {
      rows.at[rows.count++] = next;
    } else {
      leave_out(next);
    }
    ++next;
    if (next % 16 == 0) next += stride - 16;
  }
  return rows.count > 0;
}

// The gradient of an IN x OUT matrix is summed in its final memory.
template <int IN, int OUT>
struct MatrixGradient {
  float* at;
};

template <int IN, int OUT>
METAL_FUNC void tile_gradient_start(MatrixGradient<IN, OUT>& gradient, float* out) {
  gradient.at = out;
  for (int i = 0; i < IN * OUT; ++i) out[i] = 0.0f;
}

constexpr int tile_space(int, int, int) { return 1; }

template <int IN, int OUT, int PADDING>
METAL_FUNC void tile_gradient(uint, const Tile<IN>& x, const Tile<OUT>& d,
                              MatrixGradient<IN, OUT>& gradient, tile_value*) {
  constexpr int COLUMNS = OUT / LANES;
  constexpr int ROWS = rows_in_registers(COLUMNS);
  for (int i = 0; i < IN; i += ROWS) {
    lanes sum[ROWS][COLUMNS];
    UNROLL
    for (int r = 0; r < ROWS; ++r) {
      UNROLL
      for (int column = 0; column < COLUMNS; ++column) {
        sum[r][column] = load_lanes(gradient.at + (i + r) * OUT + column * LANES);
      }
    }
    for (int row = 0; row < 16; ++row) {
      UNROLL
      for (int column = 0; column < COLUMNS; ++column) {
        const lanes slope = load_lanes(d.at + row * OUT + column * LANES);
        UNROLL
        for (int r = 0; r < ROWS; ++r) {
          sum[r][column] = x.at[row * IN + i + r] * slope + sum[r][column];
        }
      }
    }
    UNROLL
    for (int r = 0; r < ROWS; ++r) {
      UNROLL
      for (int column = 0; column < COLUMNS; ++column) {
        store_lanes(gradient.at + (i + r) * OUT + column * LANES, sum[r][column]);
      }
    }
  }
}

template <int IN, int OUT>
METAL_FUNC void tile_gradient_store(uint, const MatrixGradient<IN, OUT>&, float*) {}
