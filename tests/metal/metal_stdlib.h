// Metal's language and library for clang, on a machine without Metal: the names that kernels use,
// with the types that Metal's compiler gives them, so that clang refuses what it would refuse.
// judge.py compiles kernels against it and execute.py runs them; runtime.h is what running takes.
//
// Nothing of the host's libraries is included: a kernel sees Metal's names alone. Where Metal takes
// more than clang can be told, this takes less.
#pragma once

#include "runtime.h"

#pragma clang diagnostic ignored "-Wduplicate-decl-specifier"  // `const constant`, as MLX writes

#define device __attribute__((address_space(1)))
#define constant const __attribute__((address_space(2)))
#define threadgroup __attribute__((address_space(3)))
#define thread

#define METAL_FUNC inline __attribute__((always_inline))
// What threads do through the runtime: no access of the kernel's own, so none to be recorded.
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

// Metal copies a struct from any address space; clang does so with a constructor for each, which
// the judge puts into every struct. A struct stays one that braces fill.
#define METAL_STRUCT(Struct)              \
  Struct() = default;                     \
  Struct(thread const Struct&) = default; \
  Struct(device const Struct&) = default; \
  Struct(constant Struct&) = default;     \
  Struct(threadgroup const Struct&) = default; \
  thread Struct& operator=(thread const Struct&) = default;

// Converts to and from float, and only when asked to.
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

namespace metal {

// --- Arithmetic --------------------------------------------------------------------------------

namespace parts {

// A function of vectors exists for those whose elements have a type here.
template <typename T>
struct floating {};
template <>
struct floating<float> {
  typedef float type;
};
template <>
struct floating<half> {
  typedef half type;
};
template <typename T>
struct number : floating<T> {};
#define METAL_INTEGERS(DEFINE)                                                                  \
  DEFINE(char) DEFINE(uchar) DEFINE(short) DEFINE(ushort) DEFINE(int) DEFINE(uint) DEFINE(long) \
  DEFINE(ulong)
#define METAL_NUMBER(T) \
  template <>           \
  struct number<T> {    \
    typedef T type;     \
  };
METAL_INTEGERS(METAL_NUMBER)
#undef METAL_NUMBER

template <template <typename> class Kind, typename T, int N>
using vec_of = vec<typename Kind<T>::type, N>;

}  // namespace parts

#define METAL_ELEMENTWISE_1(Kind, name)                              \
  template <typename T, int N>                                       \
  METAL_FUNC parts::vec_of<parts::Kind, T, N> name(vec<T, N> x) {                  \
    for (int i = 0; i < N; ++i) x[i] = name(x[i]);                   \
    return x;                                                        \
  }
#define METAL_ELEMENTWISE_2(Kind, name)                              \
  template <typename T, int N>                                       \
  METAL_FUNC parts::vec_of<parts::Kind, T, N> name(vec<T, N> x, vec<T, N> y) {     \
    for (int i = 0; i < N; ++i) x[i] = name(x[i], y[i]);             \
    return x;                                                        \
  }
#define METAL_ELEMENTWISE_3(Kind, name)                                           \
  template <typename T, int N>                                                    \
  METAL_FUNC parts::vec_of<parts::Kind, T, N> name(vec<T, N> x, vec<T, N> y, vec<T, N> z) {     \
    for (int i = 0; i < N; ++i) x[i] = name(x[i], y[i], z[i]);                    \
    return x;                                                                     \
  }

#define METAL_UNARY(name, result)                                        \
  METAL_FUNC float name(float x) { return result; }                      \
  METAL_FUNC half name(half h) { return half(name(float(h))); }          \
  METAL_ELEMENTWISE_1(floating, name)
// With the two variants that Metal has of it for float.
#define METAL_UNARY_VARIANTS(name, result)                               \
  METAL_UNARY(name, result)                                              \
  namespace precise {                                                    \
  METAL_FUNC float name(float x) { return metal::name(x); }              \
  }                                                                      \
  namespace fast {                                                       \
  METAL_FUNC float name(float x) { return metal::name(x); }              \
  }
METAL_UNARY_VARIANTS(exp, __builtin_expf(x))
METAL_UNARY_VARIANTS(exp2, __builtin_exp2f(x))
METAL_UNARY_VARIANTS(log, __builtin_logf(x))
METAL_UNARY_VARIANTS(log2, __builtin_log2f(x))
METAL_UNARY_VARIANTS(sin, __builtin_sinf(x))
METAL_UNARY_VARIANTS(cos, __builtin_cosf(x))
METAL_UNARY_VARIANTS(sqrt, __builtin_sqrtf(x))
METAL_UNARY_VARIANTS(rsqrt, 1.0f / __builtin_sqrtf(x))
METAL_UNARY(floor, __builtin_floorf(x))
METAL_UNARY(ceil, __builtin_ceilf(x))
METAL_UNARY(fabs, __builtin_fabsf(x))

METAL_FUNC float abs(float x) { return fabs(x); }
METAL_FUNC half abs(half x) { return fabs(x); }
METAL_FUNC int abs(int x) { return x < 0 ? -x : x; }
METAL_ELEMENTWISE_1(number, abs)

METAL_FUNC float pow(float x, float y) { return __builtin_powf(x, y); }
METAL_FUNC half pow(half x, half y) { return half(pow(float(x), float(y))); }
METAL_ELEMENTWISE_2(floating, pow)

METAL_FUNC float fma(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
METAL_FUNC half fma(half x, half y, half z) { return half(fma(float(x), float(y), float(z))); }
METAL_ELEMENTWISE_3(floating, fma)

// Of a number and something that is none, Metal's min and max give the number.
METAL_FUNC float min(float x, float y) { return __builtin_fminf(x, y); }
METAL_FUNC float max(float x, float y) { return __builtin_fmaxf(x, y); }
METAL_FUNC half min(half x, half y) { return half(min(float(x), float(y))); }
METAL_FUNC half max(half x, half y) { return half(max(float(x), float(y))); }
#define METAL_EXTREMES(T)                                   \
  METAL_FUNC T min(T x, T y) { return y < x ? y : x; }      \
  METAL_FUNC T max(T x, T y) { return x < y ? y : x; }
METAL_INTEGERS(METAL_EXTREMES)
#undef METAL_EXTREMES
METAL_ELEMENTWISE_2(number, min)
METAL_ELEMENTWISE_2(number, max)

#define METAL_MULHI(T, Wide) \
  METAL_FUNC T mulhi(T x, T y) { return T(Wide(x) * y >> 32); }
METAL_MULHI(int, long)
METAL_MULHI(uint, ulong)
#undef METAL_MULHI

#define METAL_CLAMP(T) \
  METAL_FUNC T clamp(T x, T low, T high) { return min(max(x, low), high); }
METAL_CLAMP(float)
METAL_CLAMP(half)
METAL_INTEGERS(METAL_CLAMP)
#undef METAL_CLAMP
#undef METAL_INTEGERS
METAL_ELEMENTWISE_3(number, clamp)

METAL_FUNC float mix(float x, float y, float weight) { return x + (y - x) * weight; }
METAL_FUNC half mix(half x, half y, half weight) { return x + (y - x) * weight; }
METAL_ELEMENTWISE_3(floating, mix)

// The second where the condition holds.
template <typename T>
METAL_FUNC typename parts::number<T>::type select(T otherwise, T chosen, bool condition) {
  return condition ? chosen : otherwise;
}

#undef METAL_UNARY
#undef METAL_UNARY_VARIANTS
#undef METAL_ELEMENTWISE_1
#undef METAL_ELEMENTWISE_2
#undef METAL_ELEMENTWISE_3

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
struct atomic;  // of what stands here, and nothing else
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
// Floats are atomic in device memory only, and have no minimum or maximum.
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
