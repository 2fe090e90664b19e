// The Metal names that the kernels use, in C++14 for GCC and Clang.
//
// The launcher gives each grid row of an accumulating kernel to one thread, and rows have disjoint
// outputs (nerfmac/backend/cpu_kernel.py). Atomic additions are therefore plain additions here, in
// a fixed order, and results are reproducible bit for bit.

#include <cmath>
#include <cstdint>
#include <cstring>

#define METAL_FUNC inline __attribute__((always_inline))
#define device
#define constant
#define thread
#define threadgroup

using uint = std::uint32_t;
using ulong = std::uint64_t;
using std::abs;  // libc++ has abs(float) here already, so a second definition is an error
using std::ceil;
using std::cos;
using std::exp;
using std::floor;
using std::fma;
using std::log;
using std::pow;
using std::sin;
using std::sqrt;

constexpr int memory_order_relaxed = 0;

METAL_FUNC void atomic_fetch_max_explicit(uint* address, uint value, int) {
  *address = *address < value ? value : *address;
}

template <typename To, typename From>
METAL_FUNC To as_type(From value) {
  static_assert(sizeof(To) == sizeof(From), "as_type keeps the size");
  To result;
  std::memcpy(&result, &value, sizeof(To));
  return result;
}

// The upper half of a product's 64 bits.
METAL_FUNC uint mulhi(uint a, uint b) { return uint(ulong(a) * b >> 32); }
METAL_FUNC uint popcount(uint value) { return uint(__builtin_popcount(value)); }

METAL_FUNC int min(int a, int b) { return a < b ? a : b; }
METAL_FUNC int max(int a, int b) { return a > b ? a : b; }
METAL_FUNC float min(float a, float b) { return a < b ? a : b; }
METAL_FUNC float max(float a, float b) { return a > b ? a : b; }
METAL_FUNC float clamp(float value, float low, float high) { return min(max(value, low), high); }

// Exponential of each float of a vector, with an error of at most two units in the last place: the
// usual reduction to 2^n e^r, with the polynomial of Cephes for e^r (Moshier, expf.c). NaN is
// propagated. Unlike a function of the C library, it is inlined, so it spills no registers.
template <typename Floats, typename Integers>
METAL_FUNC Floats vector_exp(Floats x) {
  const Floats above = x < -104.0f ? Floats{} - 104.0f : x;  // e^-104 is zero
  const Floats within = above > 89.0f ? Floats{} + 89.0f : above;  // e^89 is infinite
  const float whole = 12582912.0f;  // 1.5 * 2^23: the sum has no fraction
  const Floats n = (within * 1.44269504f + whole) - whole;
  const Floats r = within - n * 0.693359375f + n * 2.12194440e-4f;
  Floats series = 1.9875691500e-4f * r + 1.3981999507e-3f;
  series = series * r + 8.3334519073e-3f;
  series = series * r + 4.1665795894e-2f;
  series = series * r + 1.6666665459e-1f;
  series = series * r + 5.0000001201e-1f;
  series = series * (r * r) + (r + 1.0f);
  // Two factors: 2^n may be outside the range of normal numbers even if the result is inside.
  const Integers power = __builtin_convertvector(n, Integers), half = power >> 1;
  const Integers first = (half + 127) << 23, second = (power - half + 127) << 23;
  return series * reinterpret_cast<const Floats&>(first) * reinterpret_cast<const Floats&>(second);
}

// Metal functions in the `precise` namespace.
namespace precise {
METAL_FUNC float exp(float x) {
  typedef float floats __attribute__((vector_size(16)));
  typedef int integers __attribute__((vector_size(16)));
  return vector_exp<floats, integers>(floats{x, x, x, x})[0];
}
using std::cos;
using std::log;
using std::sin;
}  // namespace precise

struct uint2 {
  uint x, y;
};
struct uint3 {
  uint x, y, z;
};
struct float3 {
  float x, y, z;
};
METAL_FUNC float3 operator+(float3 a, float3 b) { return float3{a.x + b.x, a.y + b.y, a.z + b.z}; }
METAL_FUNC float3 operator-(float3 a, float3 b) { return float3{a.x - b.x, a.y - b.y, a.z - b.z}; }
METAL_FUNC float3 operator*(float3 a, float b) { return float3{a.x * b, a.y * b, a.z * b}; }

// Adds N values to row `row` of rows of N. All values are loaded before the first store, so that
// the compiler can use one vector register.
template <int N, typename Number>
METAL_FUNC void atomic_add_row(Number* rows, uint row, const Number* values) {
  Number sum[N];
  for (int i = 0; i < N; ++i) sum[i] = rows[row * N + i] + values[i];
  for (int i = 0; i < N; ++i) rows[row * N + i] = sum[i];
}

// Alignment of every array in bytes. MLX aligns memory less strictly than malloc.
#define ALIGNMENT 4

METAL_FUNC int simd_sum(int value) { return value; }
METAL_FUNC float simd_sum(float value) { return value; }
METAL_FUNC int simd_prefix_exclusive_sum(int) { return 0; }
METAL_FUNC float simd_prefix_exclusive_sum(float) { return 0.0f; }
METAL_FUNC int simd_broadcast(int value, int) { return value; }
template <typename Value>
METAL_FUNC Value simd_shuffle_up(Value value, int) {
  return value;
}
template <typename Value>
METAL_FUNC Value simd_shuffle_down(Value value, int) {
  return value;
}
METAL_FUNC bool simd_any(bool value) { return value; }
METAL_FUNC void simd_publish() {}
METAL_FUNC void threadgroup_publish() {}

// Placed before a loop, it keeps the small arrays of the loop in registers.
#define UNROLL _Pragma("GCC unroll 16")
