// The Metal names that the kernels use, in CUDA C++.
//
// Address spaces vanish: CUDA's pointers are generic. Accumulated outputs are plain pointers there,
// so Metal's atomic functions take those.

#define METAL_FUNC __device__ __forceinline__
#define device
#define constant
#define thread

#define thread_position_in_grid                                                       \
  uint3 {                                                                             \
    blockIdx.x *blockDim.x + threadIdx.x, blockIdx.y *blockDim.y + threadIdx.y,       \
        blockIdx.z *blockDim.z + threadIdx.z                                          \
  }

using uint = unsigned int;

constexpr int memory_order_relaxed = 0;

METAL_FUNC void atomic_fetch_add_explicit(float* address, float value, int) {
  atomicAdd(address, value);
}
METAL_FUNC void atomic_fetch_max_explicit(uint* address, uint value, int) {
  atomicMax(address, value);
}

template <typename To, typename From>
METAL_FUNC To as_type(From value) {
  static_assert(sizeof(To) == sizeof(From), "as_type keeps the size");
  To result;
  memcpy(&result, &value, sizeof(To));
  return result;
}

METAL_FUNC float clamp(float value, float low, float high) {
  return fminf(fmaxf(value, low), high);
}

METAL_FUNC float3 operator+(float3 a, float3 b) { return float3{a.x + b.x, a.y + b.y, a.z + b.z}; }
METAL_FUNC float3 operator-(float3 a, float3 b) { return float3{a.x - b.x, a.y - b.y, a.z - b.z}; }
METAL_FUNC float3 operator*(float3 a, float b) { return float3{a.x * b, a.y * b, a.z * b}; }

// Keeps a small array whose loops it heads in registers.
#define UNROLL _Pragma("unroll")

// Floats one thread works on at once where a kernel is vectorised (kernels/mlp.metal).
struct lanes {
  float at[4];
  METAL_FUNC float operator[](int i) const { return at[i]; }
  METAL_FUNC float& operator[](int i) { return at[i]; }
};
#define LANES 4

METAL_FUNC lanes operator+(lanes a, lanes b) {
  return lanes{{a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3]}};
}
METAL_FUNC lanes operator*(float a, lanes b) {
  return lanes{{a * b[0], a * b[1], a * b[2], a * b[3]}};
}
METAL_FUNC lanes load_lanes(const float* from) {
  return lanes{{from[0], from[1], from[2], from[3]}};
}
METAL_FUNC void store_lanes(float* to, lanes value) {
  for (int i = 0; i < LANES; ++i) to[i] = value[i];
}
