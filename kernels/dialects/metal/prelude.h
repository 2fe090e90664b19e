// Additions to the Metal language for the kernels. Metal needs no translation.

// Adds N values to row `row` of rows of N.
template <int N, typename Number>
METAL_FUNC void atomic_add_row(device atomic<Number>* rows, uint row, thread const Number* values) {
  for (int i = 0; i < N; ++i) {
    atomic_fetch_add_explicit(&rows[row * N + i], values[i], memory_order_relaxed);
  }
}

// Alignment of every array in bytes, as far as one load can make use of it.
#define ALIGNMENT 16

// Makes writes to threadgroup memory visible to all lanes of the simdgroup.
METAL_FUNC void simd_publish() { simdgroup_barrier(mem_flags::mem_threadgroup); }

// Makes writes to threadgroup memory visible to all threads of the threadgroup.
METAL_FUNC void threadgroup_publish() { threadgroup_barrier(mem_flags::mem_threadgroup); }

// Placed before a loop, it keeps the arrays that the loop indexes in registers. MLX uses the same
// pragma in its kernels.
#define UNROLL _Pragma("clang loop unroll(full)")
