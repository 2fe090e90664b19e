// Fibers: separate stacks, and switching between them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>

#include "runtime_memory.h"

namespace runtime {

struct Fiber {
  Range stack;
};

// An idle fiber. Each piece of its work is a call of `work`.
Fiber* idle_fiber(void (*work)());

// Runs the fiber, from the scheduler, until it yields.
void resume(Fiber* fiber);

// Yields from the fiber to the scheduler.
void give_way(Fiber* fiber);

// Call stack of a fiber, innermost call first.
struct Calls {
  static constexpr unsigned most = 8;
  void* addresses[most] = {};

  bool operator==(const Calls& other) const {
    return std::equal(addresses, addresses + most, other.addresses);
  }
};

// Call stack of the running fiber, without the frame of the caller. Requires frame pointers.
__attribute__((always_inline)) inline Calls calls(const Range& stack) {
  Calls result;
  void** frame = static_cast<void**>(__builtin_frame_address(0));
  for (unsigned i = 0; i < Calls::most && stack.holds(std::uintptr_t(frame)); ++i) {
    result.addresses[i] = frame[1];
    frame = static_cast<void**>(frame[0]);
  }
  return result;
}

// The innermost line in the source code of the kernel.
std::string line_of(const Calls& calls);

}  // namespace runtime
