// The record of the memory of a launch: its buffers, the threads that accessed each element, and
// violations of Metal's rules.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace runtime {

// Thread and time of an access. Barriers order two accesses of one threadgroup if their epochs
// differ, and two accesses of one simdgroup if their steps differ; other accesses are not ordered.
struct Moment {
  std::uint64_t group : 20 = 0;  // threadgroups count from 1, so all zero is never
  std::uint64_t epoch : 16 = 0;
  std::uint64_t simdgroup : 6 = 0;
  std::uint64_t step : 16 = 0;
  std::uint64_t lane : 6 = 0;
};
// In a summary of many accesses: more than one of them. Real values are smaller.
constexpr unsigned many_groups = (1u << 20) - 1, many_simdgroups = 63, many_lanes = 63;
constexpr unsigned last_epoch = (1u << 16) - 1, last_step = last_epoch;

enum class Role {
  input,
  output,  // not written yet
  zeroed,  // an output that starts from zero
  threadgroup,
};

// Record of one grain: a summary of all accesses of each kind.
enum Access { read, written, atomic };
struct Record {
  Moment of[3];
};

struct Buffer {
  std::string name;
  Role role;
  std::size_t bytes;
  unsigned element;  // bytes of one
  unsigned grain;    // bytes to a record: one element, or less if that is a struct
  char* begin;
  Record* records = nullptr;               // of each grain; an input needs none
  std::size_t first = SIZE_MAX, last = 0;  // where the touched bytes begin and end
};

// Opens memory for accesses, unwritten or zero, with guard zones before and behind it.
Buffer& add_buffer(const std::string& name, Role role, std::size_t bytes, unsigned element);

// Marks the threadgroup memory as unwritten.
void forget_threadgroup_memory();

// Accesses outside of the buffers are allowed in the stack of a thread, and reads in the program.
struct Range {
  std::uintptr_t begin = 0, end = 0;
  bool holds(std::uintptr_t address) const { return address - begin < end - begin; }
};
extern Range own_stack, program;

// Order by barriers: device and threadgroup accesses have separate times.
enum Memory { in_device, in_threadgroup, memories };

// The thread of recorded accesses; group 0 if no thread runs.
extern Moment now[memories];

// Number of grains without a value in an output.
std::size_t unwritten(const Buffer& buffer);

// Ends the program with a report: the name of the rule, and the violation.
[[noreturn]] void broken(const char* rule, const std::string& what);

// Description for reports; runtime.cpp provides the positions of threads.
std::string who(Moment moment);

}  // namespace runtime
