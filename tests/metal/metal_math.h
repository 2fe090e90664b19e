// Arithmetic of Metal, for metal_stdlib.h. Results have the largest errors that Metal allows.
#pragma once

#ifdef METAL_RUNS
extern "C" const unsigned kernel_number;  // another for each kernel
#endif

namespace metal {

// --- Arithmetic --------------------------------------------------------------------------------

namespace parts {

// --- Maximum errors of functions ---------------------------------------------------------------

// Metal Shading Language Specification 4, section 8.4, tables 8.1 (precise) and 8.2 (fast). On macOS
// 15 and later an unqualified name means the fast one.

// A unit in the last place.
METAL_RUNTIME float ulp(float y) {
  return as_type<float>(as_type<uint>(y) & 0x7f800000u) * 0x1p-23f;
}

METAL_RUNTIME float exp_error(float x) {
  return 3.0f + __builtin_floorf(__builtin_fabsf(2.0f * x));
}

METAL_RUNTIME float log_error(float x, float around_one, float elsewhere) {
  return x >= 0.5f && x <= 2.0f ? around_one : elsewhere;
}

// The result of a function with its maximum error. The sign of the error depends on the argument
// and, if Metal can compile the function in several ways, on the kernel.
METAL_RUNTIME float off(float x, float y, float error, bool is_fast) {
#ifdef METAL_RUNS
  const uint bits = as_type<uint>(y) & 0x7fffffffu;
  if (bits == 0 || bits >= 0x7f800000u) return y;  // zero, infinite or no number
  const uint drawn = (as_type<uint>(x) ^ (is_fast ? kernel_number : 0)) * 2654435761u;
  return drawn >> 31 ? y + error : y - error;
#else
  return y;
#endif
}

// --- Types -------------------------------------------------------------------------------------

// Functions of vectors exist only for vectors with elements of a type in this file.
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
// A function with Metal's two variants for float, each with the maximum error of the result y.
#define METAL_UNARY_VARIANTS(name, result, fast_error, precise_error)                          \
  METAL_RUNTIME float name(float x) {                                                           \
    const float y = result;                                                                     \
    return parts::off(x, y, fast_error, true);                                                  \
  }                                                                                             \
  METAL_FUNC half name(half h) { return half(name(float(h))); }                                 \
  METAL_ELEMENTWISE_1(floating, name)                                                           \
  namespace precise {                                                                           \
  METAL_RUNTIME float name(float x) {                                                           \
    const float y = result;                                                                     \
    return parts::off(x, y, precise_error, false);                                              \
  }                                                                                             \
  }                                                                                             \
  namespace fast {                                                                              \
  METAL_FUNC float name(float x) { return metal::name(x); }                                     \
  }
#define METAL_ULP(count) (count) * parts::ulp(y)
#define METAL_LOG(near, count) parts::log_error(x, near, METAL_ULP(count))
METAL_UNARY_VARIANTS(exp, __builtin_expf(x), METAL_ULP(parts::exp_error(x)), METAL_ULP(4))
METAL_UNARY_VARIANTS(exp2, __builtin_exp2f(x), METAL_ULP(parts::exp_error(x)), METAL_ULP(4))
METAL_UNARY_VARIANTS(log, __builtin_logf(x), METAL_LOG(0x1p-21f, 3), METAL_ULP(4))
METAL_UNARY_VARIANTS(log2, __builtin_log2f(x), METAL_LOG(0x1p-22f, 2), METAL_ULP(4))
METAL_UNARY_VARIANTS(sin, __builtin_sinf(x), 0x1p-13f, METAL_ULP(4))
METAL_UNARY_VARIANTS(cos, __builtin_cosf(x), 0x1p-13f, METAL_ULP(4))
METAL_UNARY_VARIANTS(sqrt, __builtin_sqrtf(x), METAL_ULP(2), 0.0f)
METAL_UNARY_VARIANTS(rsqrt, 1.0f / __builtin_sqrtf(x), METAL_ULP(2), 0.0f)
#undef METAL_ULP
#undef METAL_LOG
METAL_UNARY(floor, __builtin_floorf(x))
METAL_UNARY(ceil, __builtin_ceilf(x))
METAL_UNARY(fabs, __builtin_fabsf(x))

METAL_FUNC float abs(float x) { return fabs(x); }
METAL_FUNC half abs(half x) { return fabs(x); }
METAL_FUNC int abs(int x) { return x < 0 ? -x : x; }
METAL_ELEMENTWISE_1(number, abs)

METAL_FUNC float pow(float x, float y) { return exp2(y * log2(x)); }  // as in the fast variant
METAL_FUNC half pow(half x, half y) { return half(pow(float(x), float(y))); }
METAL_ELEMENTWISE_2(floating, pow)

METAL_FUNC float fma(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
METAL_FUNC half fma(half x, half y, half z) { return half(fma(float(x), float(y), float(z))); }
METAL_ELEMENTWISE_3(floating, fma)

namespace parts {
// The result of min or max if one operand is NaN. It depends on the operands and on the kernel.
METAL_RUNTIME float either(float x, float y) {
#ifdef METAL_RUNS
  const uint drawn = (as_type<uint>(x) ^ 3 * as_type<uint>(y) ^ kernel_number) * 2654435761u;
  return drawn >> 31 ? x : y;
#else
  return x != x ? x : y;
#endif
}
}  // namespace parts

// If one operand is NaN, the precise variants return the other. The fast variants, used here as on
// macOS 15 and later, may return either operand.
METAL_FUNC float min(float x, float y) { return x < y ? x : y <= x ? y : parts::either(x, y); }
METAL_FUNC float max(float x, float y) { return x > y ? x : y >= x ? y : parts::either(x, y); }
namespace precise {
METAL_FUNC float min(float x, float y) { return __builtin_fminf(x, y); }
METAL_FUNC float max(float x, float y) { return __builtin_fmaxf(x, y); }
}
namespace fast {
METAL_FUNC float min(float x, float y) { return metal::min(x, y); }
METAL_FUNC float max(float x, float y) { return metal::max(x, y); }
}
METAL_FUNC half min(half x, half y) { return half(min(float(x), float(y))); }
METAL_FUNC half max(half x, half y) { return half(max(float(x), float(y))); }
#define METAL_EXTREMES(T)                                   \
  METAL_FUNC T min(T x, T y) { return y < x ? y : x; }      \
  METAL_FUNC T max(T x, T y) { return x < y ? y : x; }
METAL_INTEGERS(METAL_EXTREMES)
#undef METAL_EXTREMES
METAL_ELEMENTWISE_2(number, min)
METAL_ELEMENTWISE_2(number, max)

METAL_FUNC uint popcount(uint x) { return uint(__builtin_popcount(x)); }

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

// Returns the second value where the condition is true.
template <typename T>
METAL_FUNC typename parts::number<T>::type select(T otherwise, T chosen, bool condition) {
  return condition ? chosen : otherwise;
}

#undef METAL_UNARY
#undef METAL_UNARY_VARIANTS
#undef METAL_ELEMENTWISE_1
#undef METAL_ELEMENTWISE_2
#undef METAL_ELEMENTWISE_3

}  // namespace metal
