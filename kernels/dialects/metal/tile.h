// Tiles on Apple GPUs: simdgroup matrices of 8 x 8, half precision with float accumulation.
//
// No matrix is const, because Metal's specification does not guarantee reading const matrices.

#define TRACE_RAYS 32

typedef half tile_value;

template <int COLUMNS>
struct Tile {
  simdgroup_half8x8 part[COLUMNS / 8][2];  // rows 0 to 7, rows 8 to 15
};

template <int COLUMNS>
struct Sums {
  simdgroup_float8x8 part[COLUMNS / 8][2];
};

// A matrix is stored row by row: position of element `index`.
template <int IN, int OUT>
METAL_FUNC uint2 tile_place(uint index) {
  return uint2{index / OUT, index % OUT};
}

template <int IN, int OUT, typename Matrix>
METAL_FUNC void tile_multiply(uint, thread Tile<IN>& x, Matrix matrix, thread Sums<OUT>& out) {
  UNROLL
  for (int n = 0; n < OUT / 8; ++n) {
    UNROLL
    for (int i = 0; i < 2; ++i) out.part[n][i] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    UNROLL
    for (int k = 0; k < IN / 8; ++k) {
      simdgroup_half8x8 b;
      simdgroup_load(b, matrix + k * 8 * OUT + n * 8, OUT);
      UNROLL
      for (int i = 0; i < 2; ++i) {
        simdgroup_multiply_accumulate(out.part[n][i], x.part[k][i], b, out.part[n][i]);
      }
    }
  }
}

// Position of the first matrix element of a lane, thread_elements()[0]; [1] is the next column.
struct TileSeat {
  int row, column;
};

METAL_FUNC TileSeat tile_seat(uint lane) {
  const int quad = int(lane) / 4;
  return TileSeat{(quad & 4) + int(lane) / 2 % 4, (quad & 2) * 2 + int(lane) % 2 * 2};
}

// Sets the values of the first COUNT columns to function(row, column, value) in existing rows, and
// all other values to zero.
template <int COUNT, int COLUMNS, typename Rows, typename Function>
METAL_FUNC void tile_each(
    uint local, thread Sums<COLUMNS>& sums, Rows rows, Function function) {
  const TileSeat seat = tile_seat(local % 32);
  UNROLL
  for (int n = 0; n < COLUMNS / 8; ++n) {
    UNROLL
    for (int i = 0; i < 2; ++i) {
      thread auto& two = sums.part[n][i].thread_elements();
      UNROLL
      for (int e = 0; e < 2; ++e) {
        const int row = seat.row + 8 * i, column = 8 * n + seat.column + e;
        const bool is_there = column < COUNT && row < rows.count;
        two[e] = is_there ? float(function(rows[row], column, two[e])) : 0.0f;
      }
    }
  }
}

// Sets the values of the first COUNT columns to function(value).
template <int COUNT, int COLUMNS, typename Function>
METAL_FUNC void tile_activate(uint local, thread Sums<COLUMNS>& sums, Function function) {
  const TileSeat seat = tile_seat(local % 32);
  UNROLL
  for (int n = 0; n < (COUNT + 7) / 8; ++n) {
    UNROLL
    for (int i = 0; i < 2; ++i) {
      thread auto& two = sums.part[n][i].thread_elements();
      UNROLL
      for (int e = 0; e < 2; ++e) {
        if (8 * n + seat.column + e < COUNT) two[e] = function(two[e]);
      }
    }
  }
}

// The values of the rows, read from places(row); zero in rows that do not exist.
template <int COLUMNS, typename Rows, typename Places>
METAL_FUNC void tile_fill(uint local, thread Tile<COLUMNS>& tile, Rows rows, Places places) {
  const TileSeat seat = tile_seat(local % 32);
  UNROLL
  for (int n = 0; n < COLUMNS / 8; ++n) {
    UNROLL
    for (int i = 0; i < 2; ++i) {
      thread auto& two = tile.part[n][i].thread_elements();
      UNROLL
      for (int e = 0; e < 2; ++e) {
        const int row = seat.row + 8 * i, column = 8 * n + seat.column + e;
        two[e] = row < rows.count ? half(places(rows[row])[column]) : 0.0h;
      }
    }
  }
}

template <int COLUMNS>
METAL_FUNC void tile_round(thread Sums<COLUMNS>& sums, thread Tile<COLUMNS>& tile) {
  UNROLL
  for (int n = 0; n < COLUMNS / 8; ++n) {
    UNROLL
    for (int i = 0; i < 2; ++i) {
      UNROLL
      for (int e = 0; e < 2; ++e) {
        tile.part[n][i].thread_elements()[e] = half(sums.part[n][i].thread_elements()[e]);
      }
    }
  }
}

// ReLU. It propagates NaN, so that training detects a diverged run.
template <int COLUMNS>
METAL_FUNC void tile_rectify(thread Sums<COLUMNS>& sums, thread Tile<COLUMNS>& tile) {
  UNROLL
  for (int n = 0; n < COLUMNS / 8; ++n) {
    UNROLL
    for (int i = 0; i < 2; ++i) {
      UNROLL
      for (int e = 0; e < 2; ++e) {
        const float value = sums.part[n][i].thread_elements()[e];
        tile.part[n][i].thread_elements()[e] = half(value < 0.0f ? 0.0f : value);
      }
    }
  }
}

// Keeps d where the activation after ReLU is positive.
template <int COLUMNS>
METAL_FUNC void tile_gate(
    thread Sums<COLUMNS>& d, thread Tile<COLUMNS>& active, thread Tile<COLUMNS>& out) {
  UNROLL
  for (int n = 0; n < COLUMNS / 8; ++n) {
    UNROLL
    for (int i = 0; i < 2; ++i) {
      UNROLL
      for (int e = 0; e < 2; ++e) {
        const bool is_on = active.part[n][i].thread_elements()[e] > 0.0h;
        const float slope = d.part[n][i].thread_elements()[e];
        out.part[n][i].thread_elements()[e] = half(is_on ? slope : 0.0f);
      }
    }
  }
}

// Adds the first columns of `more`.
template <int COLUMNS, int MORE>
METAL_FUNC void tile_add(thread Sums<COLUMNS>& sums, thread Sums<MORE>& more) {
  UNROLL
  for (int n = 0; n < COLUMNS / 8; ++n) {
    UNROLL
    for (int i = 0; i < 2; ++i) {
      UNROLL
      for (int e = 0; e < 2; ++e) {
        sums.part[n][i].thread_elements()[e] += more.part[n][i].thread_elements()[e];
      }
    }
  }
}

template <int LEFT, int RIGHT>
METAL_FUNC void tile_join(thread Tile<LEFT>& left, thread Tile<RIGHT>& right,
                          thread Tile<LEFT + RIGHT>& out) {
  UNROLL
  for (int n = 0; n < LEFT / 8; ++n) {
    UNROLL
    for (int i = 0; i < 2; ++i) out.part[n][i] = left.part[n][i];
  }
  UNROLL
  for (int n = 0; n < RIGHT / 8; ++n) {
    UNROLL
    for (int i = 0; i < 2; ++i) out.part[LEFT / 8 + n][i] = right.part[n][i];
  }
}

// Whether `value` is true in any thread of the threadgroup; uses the first values of `space`.
METAL_FUNC bool tile_any(uint local, bool value, threadgroup tile_value* space) {
  const bool any = simd_any(value);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (local % 32 == 0) space[local / 32] = any ? 1.0h : 0.0h;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  bool result = false;
  for (int i = 0; i < TILE_SIMDGROUPS; ++i) result = result || space[i] > 0.0h;
  return result;
}

#include "dialects/simdgroup_tile.h"

// The part of one simdgroup in the gradient of an IN x OUT matrix: every TILE_SIMDGROUPS-th block.
template <int IN, int OUT>
struct MatrixGradient {
  static_assert(IN / 8 * (OUT / 8) % TILE_SIMDGROUPS == 0, "each simdgroup has as many blocks");
  simdgroup_float8x8 part[IN / 8 * (OUT / 8) / TILE_SIMDGROUPS];
};

template <int IN, int OUT>
METAL_FUNC void tile_gradient_start(thread MatrixGradient<IN, OUT>& gradient, device float*) {
  UNROLL
  for (int i = 0; i < IN / 8 * (OUT / 8) / TILE_SIMDGROUPS; ++i) {
    gradient.part[i] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
  }
}

// Number of values that tile_gradient needs in threadgroup memory, with `padding` after each row.
constexpr int tile_space(int in, int out, int padding) {
  return TILE_SIMDGROUPS * TILE_ROWS * (in + out + 2 * padding);
}

// Writes the tile of a simdgroup to threadgroup memory. Rows have the given length.
template <int COLUMNS>
METAL_FUNC void tile_publish(
    thread Tile<COLUMNS>& tile, threadgroup tile_value* space, int row_length) {
  UNROLL
  for (int n = 0; n < COLUMNS / 8; ++n) {
    simdgroup_store(tile.part[n][0], space + 8 * n, row_length);
    simdgroup_store(tile.part[n][1], space + 8 * row_length + 8 * n, row_length);
  }
}

// Transposed x times d, summed over the tiles of the threadgroup.
template <int IN, int OUT, int PADDING>
METAL_FUNC void tile_gradient(
    uint local, thread Tile<IN>& x, thread Tile<OUT>& d,
    thread MatrixGradient<IN, OUT>& gradient, threadgroup tile_value* space) {
  const int simdgroup = int(local) / 32;
  constexpr int LEFT = IN + PADDING, RIGHT = OUT + PADDING;
  threadgroup tile_value* right = space + TILE_SIMDGROUPS * TILE_ROWS * LEFT;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  tile_publish(x, space + simdgroup * TILE_ROWS * LEFT, LEFT);
  tile_publish(d, right + simdgroup * TILE_ROWS * RIGHT, RIGHT);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  UNROLL
  for (int i = 0; i < IN / 8 * (OUT / 8) / TILE_SIMDGROUPS; ++i) {
    const int block = simdgroup + i * TILE_SIMDGROUPS;
    const int m = block % (IN / 8) * 8, n = block / (IN / 8) * 8;
    for (int row = 0; row < TILE_SIMDGROUPS * TILE_ROWS; row += 8) {
      simdgroup_half8x8 a, b;
      simdgroup_load(a, space + row * LEFT + m, LEFT, ulong2{0, 0}, true);
      simdgroup_load(b, right + row * RIGHT + n, RIGHT);
      simdgroup_multiply_accumulate(gradient.part[i], a, b, gradient.part[i]);
    }
  }
}

template <int IN, int OUT>
METAL_FUNC void tile_gradient_store(
    uint local, thread MatrixGradient<IN, OUT>& gradient, device float* out) {
  UNROLL
  for (int i = 0; i < IN / 8 * (OUT / 8) / TILE_SIMDGROUPS; ++i) {
    const int block = int(local) / 32 + i * TILE_SIMDGROUPS;
    simdgroup_store(
        gradient.part[i], out + block % (IN / 8) * 8 * OUT + block / (IN / 8) * 8, OUT);
  }
}
