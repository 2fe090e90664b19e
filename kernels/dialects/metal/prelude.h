// Metal needs no translation: it is the language the kernels are written in. What stands here is
// what the kernels add to it.

// Adds N values to row `row` of rows of N.
template <int N, typename Number>
METAL_FUNC void atomic_add_row(device atomic<Number>* rows, uint row, thread const Number* values) {
  for (int i = 0; i < N; ++i) {
    atomic_fetch_add_explicit(&rows[row * N + i], values[i], memory_order_relaxed);
  }
}

// Bytes that every array's beginning is a multiple of, as far as one load can profit.
#define ALIGNMENT 16

// Lets a simdgroup's lanes see what they have written to the threadgroup's memory.
METAL_FUNC void simd_publish() { simdgroup_barrier(mem_flags::mem_threadgroup); }

// Keeps an array in registers: it heads each loop that indexes one. The words are those of MLX's own
// kernels.
#define UNROLL _Pragma("clang loop unroll(full)")
