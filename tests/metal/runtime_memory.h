// The record of a launch's memory: its buffers, who touched each element of them, and which
// accesses break a rule of Metal's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace runtime {

// Who touches memory, and when. Barriers order two accesses of one threadgroup if their epochs
// differ, and two of one simdgroup if their steps differ; nothing else orders them.
struct Moment {
  std::uint64_t group : 20 = 0;  // threadgroups count from 1, so all zero is never
  std::uint64_t epoch : 16 = 0;
  std::uint64_t simdgroup : 6 = 0;
  std::uint64_t step : 16 = 0;
  std::uint64_t lane : 6 = 0;
};
// In a summary of many accesses: more than one of them. Real ones stay below.
constexpr unsigned many_groups = (1u << 20) - 1, many_simdgroups = 63, many_lanes = 63;
constexpr unsigned last_epoch = (1u << 16) - 1, last_step = last_epoch;

enum class Role {
  input,
  output,  // no one wrote it yet
  zeroed,  // an output that starts from zero
  threadgroup,
};

// What is known of one grain: for each kind of access, all of that kind, summed up.
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

// Opens memory for accesses, unwritten or zero; guard zones lie before and behind.
Buffer& add_buffer(const std::string& name, Role role, std::size_t bytes, unsigned element);

// Makes the threadgroup's memory unwritten.
void forget_threadgroup_memory();

// Accesses outside of the buffers are allowed in a thread's own stack, and reads in the program.
struct Range {
  std::uintptr_t begin = 0, end = 0;
  bool holds(std::uintptr_t address) const { return address - begin < end - begin; }
};
extern Range own_stack, program;

// What a barrier can order: accesses of either kind have a moment of their own.
enum Memory { in_device, in_threadgroup, memories };

// Whose accesses are recorded; of group 0 if no thread runs.
extern Moment now[memories];

// How many grains of an output have no value.
std::size_t unwritten(const Buffer& buffer);

// Ends the program with a report: the rule's name and what broke it.
[[noreturn]] void broken(const char* rule, const std::string& what);

// In words, for reports; runtime.cpp knows the threads' positions.
std::string who(Moment moment);

}  // namespace runtime
