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

// Metal functions in the `precise` namespace.
namespace precise {
using std::cos;
using std::exp;
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
