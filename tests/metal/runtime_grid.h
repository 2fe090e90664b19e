// A launch: which threads there are, and what they run.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "runtime.h"

namespace runtime {

struct Grid {
  unsigned threads[3], group[3];  // as Metal's dispatchThreads:threadsPerThreadgroup: takes them
  std::size_t first, last;        // threadgroups that run, in linear order: not `last` itself
  bool adds_in_pairs;             // the values of a simdgroup, as a tree
};

using Kernel = void (*)(void* const* buffers, const Place& place);

void run_grid(const Grid& grid, Kernel kernel, const std::vector<void*>& buffers);

// In words, the thread that runs or ran last; nothing if none did.
std::string who_runs();

}  // namespace runtime
