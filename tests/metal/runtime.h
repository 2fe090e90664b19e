// Functions for executing a kernel on the host: lanes that wait for each other, and a record of
// every access. They are defined in runtime.cpp and called from metal_stdlib.h.
#pragma once

namespace runtime {

// Gives every active lane of the simdgroup the values of all lanes: `mine` has `bytes` bytes, `all`
// has room for 32 times as many, in the order of lanes; all bits are set for inactive lanes. Waits
// until every lane that has not returned arrives at the same call in the kernel; `what` is its
// name. Returns a mask of the active lanes.
unsigned exchange(const char* what, const void* mine, void* all, unsigned bytes);

// The elements of two 8 x 8 matrices in a lane: the first position, and the next column.
struct MatrixFactors {
  unsigned row, column;
  float a[2], b[2];
};

// The elements of this lane in a times b.
void matrix_product(const char* what, const MatrixFactors& mine, float* product);

// Waits for the threads of the threadgroup, or of the simdgroup. Accesses before and after are
// ordered in the memory given by the bits of Metal's mem_flags: 1 for device, 2 for threadgroup.
void threadgroup_barrier(unsigned memory);
void simdgroup_barrier(unsigned memory);

// Records that the thread is about to read and write an element atomically.
void atomic_access(const volatile void* address, unsigned bytes);

// The same for a plain access that the compiler does not record.
void plain_access(const volatile void* address, unsigned bytes, bool is_write);

// The lane within its simdgroup.
unsigned lane();

// Whether a simdgroup sum is computed as a tree, neighbors first, or from left to right.
bool adds_in_pairs();

// Memory for the threadgroup variable with this name, shared by all threads. Its content is lost
// between threadgroups. `element` is the element size for indexing.
void* threadgroup_memory(const char* name, unsigned long bytes, unsigned element);

// Position of a thread, with the names of Metal's attributes.
struct Place {
  unsigned thread_position_in_grid[3], threads_per_grid[3];
  unsigned threadgroup_position_in_grid[3], threadgroups_per_grid[3];
  unsigned thread_position_in_threadgroup[3], threads_per_threadgroup[3];
  unsigned dispatch_threads_per_threadgroup[3];
  unsigned thread_index_in_threadgroup[1];
  unsigned thread_index_in_simdgroup[1], threads_per_simdgroup[1];
  unsigned simdgroup_index_in_threadgroup[1], simdgroups_per_threadgroup[1];
};

}  // namespace runtime
