// Metal's language and library for clang, on a machine without Metal: the names that kernels use,
// with Metal's types, so that clang rejects code that Metal would reject. judge.py compiles kernels
// against it and execute.py runs them; runtime.h contains the functions for execution.
//
// No host libraries are included, so a kernel sees only Metal's names. Where clang cannot check
// code as Metal does, this header is stricter.
#pragma once

#include "runtime.h"

#pragma clang diagnostic ignored "-Wduplicate-decl-specifier"  // `const constant`, as MLX writes

#define device __attribute__((address_space(1)))
#define constant const __attribute__((address_space(2)))
#define threadgroup __attribute__((address_space(3)))
#define thread

#define METAL_FUNC inline __attribute__((always_inline))
// Calls of the runtime. They are not memory accesses of the kernel and must not be recorded.
#define METAL_RUNTIME \
  inline __attribute__((noinline, no_sanitize("coverage", "address", "undefined")))

typedef char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long int64_t;
typedef unsigned char uchar, uint8_t;
typedef unsigned short ushort, uint16_t;
typedef unsigned int uint, uint32_t;
typedef unsigned long ulong, uint64_t, size_t;
typedef long ptrdiff_t;
typedef _Float16 half, float16_t;

namespace metal {
template <typename T, int N>
using vec = T __attribute__((ext_vector_type(N)));
}  // namespace metal

#define METAL_VECTORS(T)    \
  typedef metal::vec<T, 2> T##2; \
  typedef metal::vec<T, 3> T##3; \
  typedef metal::vec<T, 4> T##4;
METAL_VECTORS(char)
METAL_VECTORS(uchar)
METAL_VECTORS(short)
METAL_VECTORS(ushort)
METAL_VECTORS(int)
METAL_VECTORS(uint)
METAL_VECTORS(long)
METAL_VECTORS(ulong)
METAL_VECTORS(half)
METAL_VECTORS(float)
#undef METAL_VECTORS

template <typename To, typename From>
METAL_FUNC To as_type(From from) {
  static_assert(sizeof(To) == sizeof(From), "as_type takes a type of the same size");
  return __builtin_bit_cast(To, from);
}

// Metal copies a struct from any address space. clang needs a constructor for each address space,
// and the judge adds these constructors to every struct. Structs can still be initialized with
// braces.
#define METAL_STRUCT(Struct)              \
  Struct() = default;                     \
  Struct(thread const Struct&) = default; \
  Struct(device const Struct&) = default; \
  Struct(constant Struct&) = default;     \
  Struct(threadgroup const Struct&) = default; \
  thread Struct& operator=(thread const Struct&) = default;

// Converts to and from float, only explicitly.
struct bfloat {
  ushort bits;

  METAL_STRUCT(bfloat)
  METAL_FUNC explicit bfloat(float value) {
    const uint wide = as_type<uint>(value);
    bits = ushort((wide + 0x7fff + (wide >> 16 & 1)) >> 16);  // to the nearest, ties to even
    if (value != value) bits = 0x7fc0;
  }
  METAL_FUNC explicit operator float() const { return as_type<float>(uint(bits) << 16); }
};
typedef bfloat bfloat16_t;

#include "metal_math.h"

namespace metal {

// --- Memory ------------------------------------------------------------------------------------

enum class mem_flags { mem_none = 0, mem_device = 1, mem_threadgroup = 2 };
METAL_FUNC mem_flags operator|(mem_flags a, mem_flags b) { return mem_flags(int(a) | int(b)); }

METAL_FUNC void threadgroup_barrier(mem_flags memory) {
  runtime::threadgroup_barrier(unsigned(memory));
}
METAL_FUNC void simdgroup_barrier(mem_flags memory) {
  runtime::simdgroup_barrier(unsigned(memory));
}

enum memory_order { memory_order_relaxed };

template <typename T>
struct atomic;  // only for the types below
template <>
struct atomic<int> {
  int held;
};
template <>
struct atomic<uint> {
  uint held;
};
template <>
struct atomic<float> {
  float held;
};
typedef atomic<int> atomic_int;
typedef atomic<uint> atomic_uint;
typedef atomic<float> atomic_float;

#define METAL_ATOMIC(space, T, name, after)                                                     \
  METAL_RUNTIME T atomic_##name##_explicit(                                                     \
      volatile space atomic<T>* object, T operand, memory_order) {                              \
    runtime::atomic_access((const volatile void*)object, sizeof(T));                            \
    const T before = object->held;                                                              \
    object->held = after;                                                                       \
    return before;                                                                              \
  }
#define METAL_ATOMIC_ACCESS(space, T)                                                           \
  METAL_ATOMIC(space, T, exchange, operand)                                                     \
  METAL_RUNTIME T atomic_load_explicit(const volatile space atomic<T>* object, memory_order) {  \
    runtime::atomic_access((const volatile void*)object, sizeof(T));                            \
    return object->held;                                                                        \
  }                                                                                             \
  METAL_RUNTIME void atomic_store_explicit(                                                     \
      volatile space atomic<T>* object, T operand, memory_order) {                              \
    runtime::atomic_access((const volatile void*)object, sizeof(T));                            \
    object->held = operand;                                                                     \
  }
#define METAL_ATOMIC_INTEGER(space, T)                                                          \
  METAL_ATOMIC_ACCESS(space, T)                                                                 \
  METAL_ATOMIC(space, T, fetch_add, T(uint(before) + uint(operand)))                            \
  METAL_ATOMIC(space, T, fetch_sub, T(uint(before) - uint(operand)))                            \
  METAL_ATOMIC(space, T, fetch_min, min(before, operand))                                       \
  METAL_ATOMIC(space, T, fetch_max, max(before, operand))                                       \
  METAL_ATOMIC(space, T, fetch_and, before & operand)                                           \
  METAL_ATOMIC(space, T, fetch_or, before | operand)                                            \
  METAL_ATOMIC(space, T, fetch_xor, before ^ operand)
METAL_ATOMIC_INTEGER(device, int)
METAL_ATOMIC_INTEGER(device, uint)
METAL_ATOMIC_INTEGER(threadgroup, int)
METAL_ATOMIC_INTEGER(threadgroup, uint)
// Floats are atomic in device memory only, and have no atomic minimum or maximum.
METAL_ATOMIC_ACCESS(device, float)
METAL_ATOMIC(device, float, fetch_add, before + operand)
METAL_ATOMIC(device, float, fetch_sub, before - operand)
#undef METAL_ATOMIC
#undef METAL_ATOMIC_ACCESS
#undef METAL_ATOMIC_INTEGER

}  // namespace metal

#include "metal_matrix.h"
#include "metal_simdgroup.h"

using namespace metal;
