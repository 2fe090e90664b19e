// A launch: its threads, and the function that they run.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "runtime.h"

namespace runtime {

struct Grid {
  unsigned threads[3], group[3];  // as Metal's dispatchThreads:threadsPerThreadgroup: takes them
  std::size_t first, last;        // threadgroups that run, in linear order: not `last` itself
  bool adds_in_pairs;             // whether simdgroup sums are computed as a tree
};

using Kernel = void (*)(void* const* buffers, const Place& place);

void run_grid(const Grid& grid, Kernel kernel, const std::vector<void*>& buffers);

// Description of the thread that runs or ran last; empty if no thread ran.
std::string who_runs();

}  // namespace runtime
