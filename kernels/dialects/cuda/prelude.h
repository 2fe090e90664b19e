// The Metal names that the kernels use, in CUDA C++.
//
// Address spaces are omitted, because CUDA pointers are generic. Accumulated outputs are plain
// pointers, so Metal's atomic functions accept plain pointers here.

#define METAL_FUNC __device__ __forceinline__
#define device
#define constant
#define thread
#define threadgroup __shared__

#define thread_position_in_grid                                                       \
  uint3 {                                                                             \
    blockIdx.x *blockDim.x + threadIdx.x, blockIdx.y *blockDim.y + threadIdx.y,       \
        blockIdx.z *blockDim.z + threadIdx.z                                          \
  }

using uint = unsigned int;
using ulong = unsigned long;  // 64 bits on Linux, and the same type as in the C library

constexpr int memory_order_relaxed = 0;

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

// The upper half of a product's 64 bits.
METAL_FUNC uint mulhi(uint a, uint b) { return __umulhi(a, b); }
METAL_FUNC uint popcount(uint value) { return __popc(value); }

METAL_FUNC float clamp(float value, float low, float high) {
  return fminf(fmaxf(value, low), high);
}

// Metal functions in the `precise` namespace.
namespace precise {
METAL_FUNC float cos(float x) { return cosf(x); }
METAL_FUNC float exp(float x) { return expf(x); }
METAL_FUNC float log(float x) { return logf(x); }
METAL_FUNC float sin(float x) { return sinf(x); }
}  // namespace precise

METAL_FUNC float3 operator+(float3 a, float3 b) { return float3{a.x + b.x, a.y + b.y, a.z + b.z}; }
METAL_FUNC float3 operator-(float3 a, float3 b) { return float3{a.x - b.x, a.y - b.y, a.z - b.z}; }
METAL_FUNC float3 operator*(float3 a, float b) { return float3{a.x * b, a.y * b, a.z * b}; }

// Adds N values to row `row` of rows of N; on Hopper and newer GPUs, four floats at once.
template <int N>
METAL_FUNC void atomic_add_row(int* rows, uint row, const int* values) {
  for (int i = 0; i < N; ++i) atomicAdd(rows + row * N + i, values[i]);
}
template <int N>
METAL_FUNC void atomic_add_row(float* rows, uint row, const float* values) {
  float* to = rows + row * N;
#if __CUDA_ARCH__ >= 900
  if constexpr (N == 2) {
    asm volatile("red.relaxed.gpu.global.add.v2.f32 [%0], {%1, %2};" ::"l"(to), "f"(values[0]),
                 "f"(values[1])
                 : "memory");
    return;
  } else if constexpr (N % 4 == 0) {
    for (int i = 0; i < N; i += 4) {
      asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to + i),
                   "f"(values[i]), "f"(values[i + 1]), "f"(values[i + 2]), "f"(values[i + 3])
                   : "memory");
    }
    return;
  }
#endif
  for (int i = 0; i < N; ++i) atomicAdd(to + i, values[i]);
}

// Alignment of every array in bytes, as far as one load can make use of it.
#define ALIGNMENT 16

METAL_FUNC int simd_sum(int value) { return __reduce_add_sync(~0u, value); }
METAL_FUNC float simd_sum(float value) {
  for (int other = 16; other > 0; other /= 2) value += __shfl_xor_sync(~0u, value, other);
  return value;
}
template <typename Value>
METAL_FUNC Value simd_prefix_exclusive_sum(Value value) {
  const int lane = threadIdx.x % 32;
  Value sum = value;
  for (int distance = 1; distance < 32; distance *= 2) {
    const Value below = __shfl_up_sync(~0u, sum, distance);
    if (lane >= distance) sum += below;
  }
  // Not sum - value: this would lose small terms next to `value`, and give NaN for infinity.
  const Value before = __shfl_up_sync(~0u, sum, 1);
  return lane == 0 ? Value(0) : before;
}
template <typename Value>
METAL_FUNC Value simd_broadcast(Value value, int lane) {
  return __shfl_sync(~0u, value, lane);
}
template <typename Value>
METAL_FUNC Value simd_shuffle_up(Value value, int distance) {
  return __shfl_up_sync(~0u, value, distance);
}
template <typename Value>
METAL_FUNC Value simd_shuffle_down(Value value, int distance) {
  return __shfl_down_sync(~0u, value, distance);
}
METAL_FUNC bool simd_any(bool value) { return __any_sync(~0u, value); }
// Makes writes to threadgroup memory visible to all lanes of the simdgroup.
METAL_FUNC void simd_publish() { __syncwarp(); }
// Makes writes to threadgroup memory visible to all threads of the threadgroup.
METAL_FUNC void threadgroup_publish() { __syncthreads(); }

// Placed before a loop, it keeps the small arrays of the loop in registers.
#define UNROLL _Pragma("unroll")
