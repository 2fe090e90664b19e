// Tiles on NVIDIA's tensor cores: mma.m16n8k16, half precision with float accumulation.
//
// With the layouts of the instruction (PTX manual, "Matrix Fragments for mma.m16n8k16"), the sums
// of one product can be the left factor of the next product without leaving their lane. With g =
// lane / 4 and t = lane % 4, a lane has columns 2t and 2t + 1 of rows g and g + 8 in each block of
// 8 columns.

#include <cuda_fp16.h>

#define TRACE_RAYS 32

typedef half tile_value;

template <int COLUMNS>
struct Tile {
  uint part[COLUMNS / 8][2];  // two halves each; [1] is row g + 8
};

template <int COLUMNS>
struct Sums {
  float part[COLUMNS / 8][4];  // row g, then row g + 8
};

METAL_FUNC uint tile_halves(float low, float high) {
  const half2 both = __floats2half2_rn(low, high);
  return *reinterpret_cast<const uint*>(&both);
}

METAL_FUNC void tile_mma(float (&sums)[4], uint a0, uint a1, uint a2, uint a3, uint b0, uint b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// A matrix is stored in the order in which lanes read it: for each block of 8 columns and 16 rows,
// the rows 2t, 2t + 1, 2t + 8, 2t + 9 of column g for each lane.
template <int IN, int OUT>
METAL_FUNC uint2 tile_place(uint index) {
  const uint element = index % 4, lane = index / 4 % 32, block = index / 128;
  const uint row = block % (IN / 16) * 16 + lane % 4 * 2 + element % 2 + element / 2 * 8;
  return uint2{row, block / (IN / 16) * 8 + lane / 4};
}

template <int IN, int OUT, typename Matrix>
METAL_FUNC void tile_multiply(uint local, const Tile<IN>& x, Matrix matrix, Sums<OUT>& out) {
  const uint2* fragments = reinterpret_cast<const uint2*>(matrix) + local % 32;
  UNROLL
  for (int n = 0; n < OUT / 8; ++n) {
    for (int i = 0; i < 4; ++i) out.part[n][i] = 0.0f;
    UNROLL
    for (int k = 0; k < IN / 16; ++k) {
      const uint2 b = fragments[(n * (IN / 16) + k) * 32];
      tile_mma(out.part[n], x.part[2 * k][0], x.part[2 * k][1], x.part[2 * k + 1][0],
               x.part[2 * k + 1][1], b.x, b.y);
    }
  }
}

// Sets the values of the first COUNT columns to function(row, column, value) in existing rows, and
// all other values to zero.
template <int COUNT, int COLUMNS, typename Rows, typename Function>
METAL_FUNC void tile_each(uint local, Sums<COLUMNS>& sums, Rows rows, Function function) {
  UNROLL
  for (int n = 0; n < COLUMNS / 8; ++n) {
    UNROLL
    for (int i = 0; i < 4; ++i) {
      const int row = local % 32 / 4 + i / 2 * 8, column = n * 8 + local % 4 * 2 + i % 2;
      float& value = sums.part[n][i];
      const bool is_there = column < COUNT && row < rows.count;
      value = is_there ? float(function(rows[row], column, value)) : 0.0f;
    }
  }
}

// Sets the values of the first COUNT columns to function(value).
template <int COUNT, int COLUMNS, typename Function>
METAL_FUNC void tile_activate(uint local, Sums<COLUMNS>& sums, Function function) {
  UNROLL
  for (int n = 0; n < (COUNT + 7) / 8; ++n) {
    UNROLL
    for (int i = 0; i < 4; ++i) {
      float& value = sums.part[n][i];
      if (n * 8 + local % 4 * 2 + i % 2 < COUNT) value = function(value);
    }
  }
}

template <int COLUMNS>
METAL_FUNC void tile_round(const Sums<COLUMNS>& sums, Tile<COLUMNS>& tile) {
  UNROLL
  for (int n = 0; n < COLUMNS / 8; ++n) {
    tile.part[n][0] = tile_halves(sums.part[n][0], sums.part[n][1]);
    tile.part[n][1] = tile_halves(sums.part[n][2], sums.part[n][3]);
  }
}

// ReLU. It propagates NaN, so that training detects a diverged run.
template <int COLUMNS>
METAL_FUNC void tile_rectify(const Sums<COLUMNS>& sums, Tile<COLUMNS>& tile) {
  tile_round(sums, tile);
  const half2 zero = __floats2half2_rn(0.0f, 0.0f);
  UNROLL
  for (int n = 0; n < COLUMNS / 8; ++n) {
    for (int i = 0; i < 2; ++i) {
      half2& both = *reinterpret_cast<half2*>(&tile.part[n][i]);
      both = __hmax2_nan(both, zero);
    }
  }
}

// Keeps d where the activation after ReLU is positive.
template <int COLUMNS>
METAL_FUNC void tile_gate(const Sums<COLUMNS>& d, const Tile<COLUMNS>& active, Tile<COLUMNS>& out) {
  UNROLL
  for (int n = 0; n < COLUMNS / 8; ++n) {
    UNROLL
    for (int i = 0; i < 2; ++i) {
      const uint on = active.part[n][i];  // rectified: not negative, so any bit means more than 0
      out.part[n][i] = tile_halves(on & 0x7fffu ? d.part[n][2 * i] : 0.0f,
                                   on & 0x7fff0000u ? d.part[n][2 * i + 1] : 0.0f);
    }
  }
}

// Adds the first columns of `more`.
template <int COLUMNS, int MORE>
METAL_FUNC void tile_add(Sums<COLUMNS>& sums, const Sums<MORE>& more) {
  for (int n = 0; n < COLUMNS / 8; ++n) {
    for (int i = 0; i < 4; ++i) sums.part[n][i] += more.part[n][i];
  }
}

template <int LEFT, int RIGHT>
METAL_FUNC void tile_join(
    const Tile<LEFT>& left, const Tile<RIGHT>& right, Tile<LEFT + RIGHT>& out) {
  for (int n = 0; n < LEFT / 8; ++n) {
    for (int i = 0; i < 2; ++i) out.part[n][i] = left.part[n][i];
  }
  for (int n = 0; n < RIGHT / 8; ++n) {
    for (int i = 0; i < 2; ++i) out.part[LEFT / 8 + n][i] = right.part[n][i];
  }
}

// The values of the rows, read from places(row); zero in rows that do not exist.
template <int COLUMNS, typename Rows, typename Places>
METAL_FUNC void tile_fill(uint local, Tile<COLUMNS>& tile, Rows rows, Places places) {
  UNROLL
  for (int n = 0; n < COLUMNS / 8; ++n) {
    UNROLL
    for (int i = 0; i < 2; ++i) {
      const int row = local % 32 / 4 + 8 * i, column = n * 8 + local % 4 * 2;
      tile.part[n][i] = 0;
      if (row < rows.count) {
        const auto values = places(rows[row]) + column;
        tile.part[n][i] = tile_halves(float(values[0]), float(values[1]));
      }
    }
  }
}

// Whether `value` is true in any thread of the threadgroup.
METAL_FUNC bool tile_any(uint, bool value, tile_value*) { return __syncthreads_or(value); }

#include "dialects/simdgroup_tile.h"

// The part of one simdgroup in the gradient of an IN x OUT matrix: every TILE_SIMDGROUPS-th block.
template <int IN, int OUT>
struct MatrixGradient {
  float part[(IN / 16 * (OUT / 8) + TILE_SIMDGROUPS - 1) / TILE_SIMDGROUPS][4];
};

template <int IN, int OUT>
METAL_FUNC void tile_gradient_start(MatrixGradient<IN, OUT>& gradient, float*) {
  gradient = {};
}

// Number of values that tile_gradient needs in threadgroup memory, with `padding` after each row.
constexpr int tile_space(int in, int out, int padding) {
  return TILE_SIMDGROUPS * TILE_ROWS * (in + out + 2 * padding);
}

// Writes the tile of a simdgroup to threadgroup memory. Rows have the given length.
template <int COLUMNS>
METAL_FUNC void tile_publish(
    uint lane, const Tile<COLUMNS>& tile, tile_value* space, int row_length) {
  uint* place = reinterpret_cast<uint*>(space + lane / 4 * row_length + lane % 4 * 2);
  UNROLL
  for (int n = 0; n < COLUMNS / 8; ++n) {
    place[4 * n] = tile.part[n][0];
    place[4 * n + 4 * row_length] = tile.part[n][1];
  }
}

// Transposed x times d, summed over the tiles of the threadgroup.
template <int IN, int OUT, int PADDING>
METAL_FUNC void tile_gradient(uint local, const Tile<IN>& x, const Tile<OUT>& d,
                              MatrixGradient<IN, OUT>& gradient, tile_value* space) {
  constexpr int LEFT = IN + PADDING, RIGHT = OUT + PADDING;
  const uint simdgroup = local / 32, lane = local % 32;
  tile_value* right = space + TILE_SIMDGROUPS * TILE_ROWS * LEFT;
  __syncthreads();
  tile_publish(lane, x, space + simdgroup * TILE_ROWS * LEFT, LEFT);
  tile_publish(lane, d, right + simdgroup * TILE_ROWS * RIGHT, RIGHT);
  __syncthreads();
  UNROLL
  for (int i = 0; i < sizeof(gradient.part) / sizeof(gradient.part[0]); ++i) {
    const int block = int(simdgroup) + i * TILE_SIMDGROUPS;
    if (block >= IN / 16 * (OUT / 8)) continue;
    const int m = block % (IN / 16) * 16, n = block / (IN / 16) * 8;
    UNROLL
    for (int tile = 0; tile < TILE_SIMDGROUPS; ++tile) {
      // ldmatrix.trans: a lane names a row of a block of 8 x 8 and gets a piece of its transpose.
      const tile_value* a_row =
          space + (tile * 16 + lane % 8 + lane / 16 * 8) * LEFT + m + lane / 8 % 2 * 8;
      const tile_value* b_row = right + (tile * 16 + lane % 16) * RIGHT + n;
      uint a[4], b[2];
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
                   : "r"(uint(__cvta_generic_to_shared(a_row))));
      asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                   : "=r"(b[0]), "=r"(b[1])
                   : "r"(uint(__cvta_generic_to_shared(b_row))));
      tile_mma(gradient.part[i], a[0], a[1], a[2], a[3], b[0], b[1]);
    }
  }
}

template <int IN, int OUT>
METAL_FUNC void tile_gradient_store(
    uint local, const MatrixGradient<IN, OUT>& gradient, float* out) {
  const int row = local % 32 / 4, column = local % 4 * 2;
  UNROLL
  for (int i = 0; i < sizeof(gradient.part) / sizeof(gradient.part[0]); ++i) {
    const int block = int(local / 32) + i * TILE_SIMDGROUPS;
    if (block >= IN / 16 * (OUT / 8)) continue;
    for (int j = 0; j < 4; ++j) {
      const int m = block % (IN / 16) * 16 + row + j / 2 * 8;
      out[m * OUT + block / (IN / 16) * 8 + column + j % 2] = gradient.part[i][j];
    }
  }
}
