// What executing a kernel on the host needs beyond the language: lanes that wait for each other,
// and a record of every access. runtime.cpp does it; metal_stdlib.h asks for it.
#pragma once

namespace runtime {

// Gives every active lane of the simdgroup all lanes' values: `mine` has `bytes` bytes, `all` room
// for 32 times as many, in the order of lanes; of lanes that take no part all bits are set. Waits
// until every lane that has not returned arrives at the same call of the kernel's; `what` names it.
// Returns a mask of the lanes that took part.
unsigned exchange(const char* what, const void* mine, void* all, unsigned bytes);

// Two 8 x 8 matrices' elements of a lane: where the first stands, the second in the next column.
struct MatrixFactors {
  unsigned row, column;
  float a[2], b[2];
};

// The lane's elements of a times b.
void matrix_product(const char* what, const MatrixFactors& mine, float* product);

// Wait for the threads of the threadgroup, or of the simdgroup. Accesses before and after are
// ordered in the memory that the bits of Metal's mem_flags name: 1 for device, 2 for threadgroup.
void threadgroup_barrier(unsigned memory);
void simdgroup_barrier(unsigned memory);

// What the thread is about to read and write atomically, at once.
void atomic_access(const volatile void* address, unsigned bytes);

// The same of a plain access that the compiler does not record.
void plain_access(const volatile void* address, unsigned bytes, bool is_write);

// The lane within its simdgroup.
unsigned lane();

// Whether sums over a simdgroup are those of a tree, neighbors first, or from left to right.
bool adds_in_pairs();

// Memory for the threadgroup variable of that name, the same for all threads; its content is lost
// from one threadgroup to the next. `element` is the size of what an index counts.
void* threadgroup_memory(const char* name, unsigned long bytes, unsigned element);

// Where a thread is, by the names of Metal's attributes.
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
