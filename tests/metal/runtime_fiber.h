// Fibers: stacks of their own, between which the program switches.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>

#include "runtime_memory.h"

namespace runtime {

struct Fiber {
  Range stack;
};

// A fiber that has no work, each of whose pieces of work is a call of `work`.
Fiber* idle_fiber(void (*work)());

// Runs the fiber, from the scheduler, until it gives way.
void resume(Fiber* fiber);

// Gives way, from the fiber, to the scheduler.
void give_way(Fiber* fiber);

// Where a fiber stands: the calls that led there, innermost first.
struct Calls {
  static constexpr unsigned most = 8;
  void* addresses[most] = {};

  bool operator==(const Calls& other) const {
    return std::equal(addresses, addresses + most, other.addresses);
  }
};

// Of the running fiber, without the frame of the function that asks. Needs frame pointers.
__attribute__((always_inline)) inline Calls calls(const Range& stack) {
  Calls result;
  void** frame = static_cast<void**>(__builtin_frame_address(0));
  for (unsigned i = 0; i < Calls::most && stack.holds(std::uintptr_t(frame)); ++i) {
    result.addresses[i] = frame[1];
    frame = static_cast<void**>(frame[0]);
  }
  return result;
}

// The innermost line of the kernel's own text.
std::string line_of(const Calls& calls);

}  // namespace runtime
