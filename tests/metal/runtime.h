// What executing a kernel on the host needs beyond the language: lanes that wait for each other, and
// a record of every access. runtime.cpp does it; metal_stdlib.h asks for it.
#pragma once

namespace runtime {

// Gives every active lane of the simdgroup all lanes' values: `mine` has `bytes` bytes, `all` room
// for 32 times as many, in the order of lanes. Waits until every lane that has not returned arrives,
// by a call with the same `what`. Returns a mask of the lanes that took part.
unsigned exchange(const char* what, const void* mine, void* all, unsigned bytes);

// Wait for the threads of the threadgroup, or of the simdgroup, that have not returned.
void threadgroup_barrier();
void simdgroup_barrier();

// What the thread is about to read and write atomically, at once.
void atomic_access(const volatile void* address, unsigned bytes);

// The lane within its simdgroup.
unsigned lane();

}  // namespace runtime
