// The Metal names that the kernels use, in C++20 for GCC and Clang.
//
// The launcher gives each row of an accumulating kernel's grid to one thread, and rows own disjoint
// outputs (nerfmac/backend/cpu_kernel.py), so atomic additions are plain ones here, in a fixed
// order: results repeat bit for bit.

#include <cmath>
#include <cstdint>
#include <cstring>

#define METAL_FUNC static inline __attribute__((always_inline))
#define device
#define constant
#define thread

using uint = std::uint32_t;
using std::ceil;
using std::exp;
using std::floor;
using std::fma;
using std::log;
using std::sqrt;

constexpr int memory_order_relaxed = 0;

METAL_FUNC void atomic_fetch_add_explicit(float* address, float value, int) { *address += value; }
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

METAL_FUNC int min(int a, int b) { return a < b ? a : b; }
METAL_FUNC int max(int a, int b) { return a > b ? a : b; }
METAL_FUNC float min(float a, float b) { return a < b ? a : b; }
METAL_FUNC float max(float a, float b) { return a > b ? a : b; }
METAL_FUNC float abs(float a) { return std::fabs(a); }
METAL_FUNC float clamp(float value, float low, float high) { return min(max(value, low), high); }

struct uint3 {
  uint x, y, z;
};
struct float3 {
  float x, y, z;
};
METAL_FUNC float3 operator+(float3 a, float3 b) { return float3{a.x + b.x, a.y + b.y, a.z + b.z}; }
METAL_FUNC float3 operator-(float3 a, float3 b) { return float3{a.x - b.x, a.y - b.y, a.z - b.z}; }
METAL_FUNC float3 operator*(float3 a, float b) { return float3{a.x * b, a.y * b, a.z * b}; }

// Keeps a small array whose loops it heads in registers.
#define UNROLL _Pragma("GCC unroll 16")

// Floats one thread works on at once where a kernel is vectorised (kernels/mlp.metal): one AVX-512
// register; compilers split it into two or four where registers are narrower.
typedef float lanes __attribute__((vector_size(64)));
#define LANES 16

// The same anywhere in memory, over plain floats.
typedef float packed_lanes __attribute__((vector_size(64), aligned(4), may_alias));

METAL_FUNC lanes load_lanes(const float* from) {
  return *reinterpret_cast<const packed_lanes*>(from);
}
METAL_FUNC void store_lanes(float* to, lanes value) {
  *reinterpret_cast<packed_lanes*>(to) = value;
}
