// Simdgroup matrices, for metal_stdlib.h.
#pragma once

#include "metal_simdgroup.h"

namespace metal {
namespace parts {

// Metal's type has room for all 64 elements; the first two belong to the lane. Executing a kernel
// requires only these two, and copying the others would be slow.
#ifdef METAL_RUNS
constexpr int matrix_elements = 2;
#else
constexpr int matrix_elements = 64;
#endif
template <typename T>
struct matrix_storage {};
template <>
struct matrix_storage<float> {
  typedef vec<float, matrix_elements> type;
};
template <>
struct matrix_storage<half> {
  typedef vec<half, matrix_elements> type;
};
template <>
struct matrix_storage<bfloat> {
  struct type {
    bfloat elements[matrix_elements];
    METAL_FUNC thread bfloat& operator[](int i) { return elements[i]; }
    METAL_FUNC bfloat operator[](int i) const { return elements[i]; }
  };
};

// Position of the first element of a lane; the second element is in the next column.
METAL_FUNC uint row_of(uint lane) { return (lane / 4 & 4) + lane / 2 % 4; }
METAL_FUNC uint column_of(uint lane) { return (lane / 4 & 2) * 2 + lane % 2 * 2; }

// Type of the sum for factors of type T: the same, or float.
template <typename Sum, typename T>
struct matrix_sum {};
template <typename T>
struct matrix_sum<T, T> {
  typedef void result;
};
template <typename T>
struct matrix_sum<float, T> {
  typedef void result;
};
template <>
struct matrix_sum<float, float> {
  typedef void result;
};

// The elements of this lane in a times b.
template <typename Elements>
METAL_RUNTIME float2 product(
    const char* what, thread const Elements& a, thread const Elements& b) {
  const uint lane = runtime::lane();
  const runtime::MatrixFactors mine = {
      row_of(lane), column_of(lane), {float(a[0]), float(a[1])}, {float(b[0]), float(b[1])}};
  float sum[2];
  runtime::matrix_product(what, mine, sum);
  return float2{sum[0], sum[1]};
}

}  // namespace parts

template <typename T, int Cols, int Rows>
struct simdgroup_matrix {
  static_assert(Cols == 8 && Rows == 8, "a simdgroup_matrix has 8 by 8 elements");
  typedef typename parts::matrix_storage<T>::type storage_type;

  simdgroup_matrix() = default;
  METAL_RUNTIME explicit simdgroup_matrix(T diagonal) {
    const uint row = parts::row_of(runtime::lane()), column = parts::column_of(runtime::lane());
    for (uint i = 0; i < 2; ++i) elements[i] = column + i == row ? diagonal : T(0.0f);
  }
  METAL_FUNC thread storage_type& thread_elements() { return elements; }
  METAL_FUNC storage_type thread_elements() const { return elements; }

 private:
  storage_type elements;
};
typedef simdgroup_matrix<float, 8, 8> simdgroup_float8x8;
typedef simdgroup_matrix<half, 8, 8> simdgroup_half8x8;
typedef simdgroup_matrix<bfloat, 8, 8> simdgroup_bfloat8x8;

template <typename T, int Cols, int Rows>
METAL_RUNTIME simdgroup_matrix<T, Cols, Rows> make_filled_simdgroup_matrix(T value) {
  simdgroup_matrix<T, Cols, Rows> result;
  for (int i = 0; i < 2; ++i) result.thread_elements()[i] = value;
  return result;
}

// The origin is (column, row) of the matrix, and thus (row, column) of memory with its transpose.
#define METAL_MATRIX_ACCESS(space)                                                            \
  namespace parts {                                                                           \
  template <typename T>                                                                       \
  METAL_RUNTIME space T* element(                                                             \
      space T* memory, ulong per_row, ulong2 origin, bool is_transposed, uint i) {            \
    const ulong row = origin.y + row_of(runtime::lane());                                     \
    const ulong column = origin.x + column_of(runtime::lane()) + i;                           \
    return memory + (is_transposed ? column * per_row + row : row * per_row + column);        \
  }                                                                                           \
  template <typename T>                                                                       \
  METAL_RUNTIME simdgroup_matrix<T, 8, 8> loaded(                                             \
      const space T* from, ulong per_row, ulong2 origin, bool is_transposed) {                \
    simdgroup_matrix<T, 8, 8> result;                                                         \
    for (uint i = 0; i < 2; ++i) {                                                            \
      const space T* at = element(from, per_row, origin, is_transposed, i);                   \
      runtime::plain_access((const void*)at, sizeof(T), false);                               \
      result.thread_elements()[i] = *at;                                                      \
    }                                                                                         \
    return result;                                                                            \
  }                                                                                           \
  }                                                                                           \
  template <typename T>                                                                       \
  METAL_FUNC void simdgroup_load(                                                             \
      thread simdgroup_matrix<T, 8, 8>& d, const space T* from, ulong elements_per_row = 8,   \
      ulong2 matrix_origin = 0, bool transpose_matrix = false) {                              \
    d = parts::loaded(from, elements_per_row, matrix_origin, transpose_matrix);               \
  }                                                                                           \
  template <typename T>                                                                       \
  METAL_RUNTIME void simdgroup_store(                                                         \
      simdgroup_matrix<T, 8, 8> a, space T* to, ulong elements_per_row = 8,                   \
      ulong2 matrix_origin = 0, bool transpose_matrix = false) {                              \
    for (uint i = 0; i < 2; ++i) {                                                            \
      space T* at = parts::element(to, elements_per_row, matrix_origin, transpose_matrix, i); \
      runtime::plain_access((const void*)at, sizeof(T), true);                                \
      *at = a.thread_elements()[i];                                                           \
    }                                                                                         \
  }
METAL_MATRIX_ACCESS(device)
METAL_MATRIX_ACCESS(threadgroup)
#undef METAL_MATRIX_ACCESS

template <typename Sum, typename T>
METAL_RUNTIME typename parts::matrix_sum<Sum, T>::result simdgroup_multiply(
    thread simdgroup_matrix<Sum, 8, 8>& d, simdgroup_matrix<T, 8, 8> a,
    simdgroup_matrix<T, 8, 8> b) {
  const float2 product =
      parts::product("simdgroup_multiply", a.thread_elements(), b.thread_elements());
  for (uint i = 0; i < 2; ++i) d.thread_elements()[i] = Sum(product[i]);
}

template <typename Sum, typename T>
METAL_RUNTIME typename parts::matrix_sum<Sum, T>::result simdgroup_multiply_accumulate(
    thread simdgroup_matrix<Sum, 8, 8>& d, simdgroup_matrix<T, 8, 8> a, simdgroup_matrix<T, 8, 8> b,
    simdgroup_matrix<Sum, 8, 8> c) {
  const float2 product =
      parts::product("simdgroup_multiply_accumulate", a.thread_elements(), b.thread_elements());
  for (uint i = 0; i < 2; ++i) {
    d.thread_elements()[i] = Sum(float(c.thread_elements()[i]) + product[i]);
  }
}

}  // namespace metal
