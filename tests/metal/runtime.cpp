// Runs a kernel over a grid as Metal would: threadgroup by threadgroup. Each thread is a fiber that
// runs until it returns or waits for other threads.

#include "runtime_grid.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string>

#include "runtime_fiber.h"
#include "runtime_memory.h"

namespace runtime {
namespace {

constexpr unsigned most_buffers = 31, simdgroup_width = 32, most_threadgroup_bytes = 32768;
constexpr unsigned all_lanes = ~0u;

enum class State { ready, exchanging, at_threadgroup_barrier, at_simdgroup_barrier, returned };

struct Thread {
  Place place;
  Moment moments[memories];
  State state = State::ready;
  Fiber* fiber = nullptr;
  // Where the thread waits, and the reason:
  Calls calls;
  unsigned memory;
  const char* what;
  const void* mine;
  char* all;
  unsigned bytes, mask;
};

Grid grid;
unsigned groups_per_grid[3];
Kernel kernel;
const std::vector<void*>* arguments;
std::vector<Thread> threads;  // of the current threadgroup
Thread* current = nullptr;

void run_until_it_waits(Thread& thread) {
  current = &thread;
  if (thread.fiber == nullptr) {
    thread.fiber = idle_fiber([] {
      // Copies in the memory of the thread: reading them is not an access of the kernel.
      void* buffers[most_buffers];
      std::copy(arguments->begin(), arguments->end(), buffers);
      const Place place = current->place;
      kernel(buffers, place);
      current->state = State::returned;
    });
  }
  std::copy(thread.moments, thread.moments + memories, now);
  own_stack = thread.fiber->stack;
  resume(thread.fiber);
  now[0].group = 0;
}

// --- Waiting for other threads -----------------------------------------------------------------

bool waits_alike(const Thread& a, const Thread& b) {
  return a.state == b.state && a.calls == b.calls;
}

std::string what_it_does(const Thread& thread) {
  if (thread.state == State::returned) return "returned";
  const std::string what = thread.state == State::exchanging               ? thread.what
                           : thread.state == State::at_threadgroup_barrier ? "threadgroup_barrier"
                                                                           : "simdgroup_barrier";
  return "waiting in " + what + " of line " + line_of(thread.calls);
}

// Ends the program: threads [from, to) are in a deadlock.
[[noreturn]] void stuck(const char* rule, unsigned from, unsigned to) {
  std::map<std::string, std::vector<const Thread*>> doing;
  for (unsigned i = from; i < to; ++i) doing[what_it_does(threads[i])].push_back(&threads[i]);
  std::string what;
  for (const auto& [doing_what, members] : doing) {
    what += (what.empty() ? "" : "; ") + doing_what + ": " + who(members[0]->moments[0]);
    if (members.size() > 1) what += " and " + std::to_string(members.size() - 1) + " more";
  }
  broken(rule, what);
}

// Gives each lane the values of all lanes.
void exchange_between(unsigned from, unsigned to, unsigned mask) {
  const Thread& first = threads[from + __builtin_ctz(mask)];
  if (std::strncmp(first.what, "simdgroup_", 10) == 0 && mask != all_lanes) {
    stuck("incomplete simdgroup", from, to);
  }
  const unsigned bytes = first.bytes;
  std::vector<char> all(std::size_t{bytes} * simdgroup_width, '\xff');
  for (unsigned i = from; i < to; ++i) {
    if (threads[i].state != State::exchanging) continue;
    std::memcpy(&all[std::size_t{bytes} * (i - from)], threads[i].mine, bytes);
  }
  for (unsigned i = from; i < to; ++i) {
    if (threads[i].state != State::exchanging) continue;
    std::memcpy(threads[i].all, all.data(), all.size());
    threads[i].mask = mask;
    threads[i].state = State::ready;
  }
}

// Resumes threads [from, to), a simdgroup, if all its lanes have stopped and wait for each other.
// Returns whether they do.
bool release_simdgroup(unsigned from, unsigned to) {
  const Thread* first = nullptr;
  unsigned mask = 0;
  for (unsigned i = from; i < to; ++i) {
    if (threads[i].state == State::returned) continue;
    mask |= 1u << (i - from);
    if (first == nullptr) first = &threads[i];
    if (waits_alike(threads[i], *first)) continue;
    const bool at_barriers = threads[i].state == first->state && first->state != State::exchanging;
    stuck(at_barriers ? "barrier not reached by all" : "divergent simdgroup", from, to);
  }
  if (first == nullptr || first->state == State::at_threadgroup_barrier) return false;
  if (first->state == State::exchanging) {
    exchange_between(from, to, mask);
    return true;
  }
  for (unsigned i = from; i < to; ++i) {
    if (threads[i].state == State::returned) stuck("barrier not reached by all", from, to);
    for (unsigned memory = 0; memory < memories; ++memory) {
      Moment& moment = threads[i].moments[memory];
      if (moment.step == last_step) stuck("more barriers than the record can hold", from, to);
      moment.step += threads[i].memory >> memory & 1;
    }
    threads[i].state = State::ready;
  }
  return true;
}

// The same for all threads, once no simdgroup can continue.
bool release_threadgroup() {
  const unsigned all = threads.size();
  const auto is_left = [](const Thread& thread) { return thread.state != State::returned; };
  if (std::none_of(threads.begin(), threads.end(), is_left)) return false;
  for (Thread& thread : threads) {
    if (!waits_alike(thread, threads[0])) stuck("barrier not reached by all", 0, all);
    for (unsigned memory = 0; memory < memories; ++memory) {
      Moment& moment = thread.moments[memory];
      if (moment.epoch == last_epoch) stuck("more barriers than the record can hold", 0, all);
      moment.epoch += thread.memory >> memory & 1;
    }
  }
  for (Thread& thread : threads) thread.state = State::ready;
  return true;
}

// --- The grid ----------------------------------------------------------------------------------

void place_of(std::size_t group, unsigned index, Place& place) {
  unsigned* size = place.threads_per_threadgroup;
  for (int axis = 0; axis < 3; ++axis) {
    const unsigned at = group % groups_per_grid[axis], begin = at * grid.group[axis];
    group /= groups_per_grid[axis];
    // Metal launches no thread outside of the grid: threadgroups at its end are smaller.
    const unsigned room = grid.threads[axis] - begin;
    size[axis] = room < grid.group[axis] ? room : grid.group[axis];
    place.threadgroup_position_in_grid[axis] = at;
    place.threads_per_grid[axis] = grid.threads[axis];
    place.threadgroups_per_grid[axis] = groups_per_grid[axis];
    place.dispatch_threads_per_threadgroup[axis] = grid.group[axis];
  }
  place.thread_index_in_threadgroup[0] = index;
  place.thread_index_in_simdgroup[0] = index % simdgroup_width;
  place.simdgroup_index_in_threadgroup[0] = index / simdgroup_width;
  place.threads_per_simdgroup[0] = simdgroup_width;
  const unsigned members = size[0] * size[1] * size[2];
  place.simdgroups_per_threadgroup[0] = (members + simdgroup_width - 1) / simdgroup_width;
  for (int axis = 0; axis < 3; ++axis) {
    const unsigned within = index % size[axis];
    index /= size[axis];
    place.thread_position_in_threadgroup[axis] = within;
    place.thread_position_in_grid[axis] =
        place.threadgroup_position_in_grid[axis] * grid.group[axis] + within;
  }
}

void run_group(std::size_t group) {
  Place place;
  place_of(group, 0, place);
  const unsigned* size = place.threads_per_threadgroup;
  threads.assign(size[0] * size[1] * size[2], Thread{});
  for (unsigned i = 0; i < threads.size(); ++i) {
    place_of(group, i, threads[i].place);
    for (Moment& moment : threads[i].moments) {
      moment.group = group - grid.first + 1;
      moment.simdgroup = i / simdgroup_width;
      moment.lane = i % simdgroup_width;
    }
  }
  forget_threadgroup_memory();
  do {
    for (unsigned from = 0; from < threads.size(); from += simdgroup_width) {
      const unsigned to = std::min<std::size_t>(from + simdgroup_width, threads.size());
      do {
        for (unsigned i = from; i < to; ++i) {
          if (threads[i].state == State::ready) run_until_it_waits(threads[i]);
        }
      } while (release_simdgroup(from, to));
    }
  } while (release_threadgroup());
}

}  // namespace

void run_grid(const Grid& whole, Kernel run, const std::vector<void*>& buffers) {
  grid = whole;
  kernel = run;
  arguments = &buffers;
  for (int axis = 0; axis < 3; ++axis) {
    groups_per_grid[axis] =
        (std::size_t{grid.threads[axis]} + grid.group[axis] - 1) / grid.group[axis];
  }
  for (std::size_t group = grid.first; group < grid.last; ++group) run_group(group);
}

std::string who(Moment moment) {
  if (moment.group == many_groups) return "several threadgroups";
  const std::size_t group = grid.first + moment.group - 1;
  Place place;
  place_of(group, 0, place);
  const auto triple = [](const unsigned* at) {
    return "(" + std::to_string(at[0]) + ", " + std::to_string(at[1]) + ", " +
           std::to_string(at[2]) + ")";
  };
  const std::string where = " of threadgroup " + triple(place.threadgroup_position_in_grid);
  if (moment.simdgroup == many_simdgroups) return "several simdgroups" + where;
  if (moment.lane == many_lanes) {
    return "several lanes of simdgroup " + std::to_string(moment.simdgroup) + where;
  }
  place_of(group, moment.simdgroup * simdgroup_width + moment.lane, place);
  return "thread " + triple(place.thread_position_in_grid) + where;
}

std::string who_runs() { return current == nullptr ? "" : who(current->moments[0]); }

// Must be called directly in the function that waits, because it records the caller of that
// function.
#define WAIT(how)                                 \
  current->state = State::how;                    \
  current->calls = calls(current->fiber->stack);  \
  give_way(current->fiber);

unsigned exchange(const char* what, const void* mine, void* all, unsigned bytes) {
  Thread& thread = *current;
  thread.what = what;
  thread.mine = mine;
  thread.all = static_cast<char*>(all);
  thread.bytes = bytes;
  WAIT(exchanging)
  return thread.mask;
}

void matrix_product(const char* what, const MatrixFactors& mine, float* product) {
  MatrixFactors all[simdgroup_width];
  exchange(what, &mine, all, sizeof(mine));
  float a[8], b[8][2];  // the lane's row of a, and its columns of b
  for (const MatrixFactors& lane : all) {
    if (lane.row == mine.row) std::copy(lane.a, lane.a + 2, a + lane.column);
    if (lane.column == mine.column) std::copy(lane.b, lane.b + 2, b[lane.row]);
  }
  for (int i = 0; i < 2; ++i) {
    product[i] = 0.0f;
    for (int k = 0; k < 8; ++k) product[i] += a[k] * b[k][i];
  }
}

void threadgroup_barrier(unsigned memory) {
  current->memory = memory;
  WAIT(at_threadgroup_barrier)
}

void simdgroup_barrier(unsigned memory) {
  current->memory = memory;
  WAIT(at_simdgroup_barrier)
}

unsigned lane() { return current->moments[0].lane; }

bool adds_in_pairs() { return grid.adds_in_pairs; }

void* threadgroup_memory(const char* name, unsigned long bytes, unsigned element) {
  static std::map<std::string, void*> known;
  static unsigned long total = 0;
  void*& memory = known[name];
  if (memory != nullptr) return memory;
  total += bytes;
  if (total > most_threadgroup_bytes) {
    broken("threadgroup memory", std::string(name) + " makes it " + std::to_string(total) +
                                     " bytes; Metal has " + std::to_string(most_threadgroup_bytes));
  }
  memory = add_buffer(name, Role::threadgroup, bytes, element).begin;
  return memory;
}

}  // namespace runtime
