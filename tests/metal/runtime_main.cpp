// The program that runs one launch of one kernel:
//
//   runtime KERNEL GRID_X GRID_Y GRID_Z GROUP_X GROUP_Y GROUP_Z FIRST LAST ORDER BUFFER...
//
// KERNEL is a shared library. Threadgroups FIRST to LAST - 1 run. ORDER is the order of the
// additions in a simdgroup sum, `lanes` (from left to right) or `tree`. A BUFFER is
// name:role:bytes:element with one of the roles input, output, zeroed. The prefix `vast_` marks
// memory with contents that are neither given (they are zero) nor returned. Standard input contains
// the inputs; standard output gets the outputs, then for each buffer three 64-bit integers: where
// its touched bytes begin and end, and how many of its grains have no value.

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "runtime_grid.h"
#include "runtime_memory.h"

extern "C" {
void __sanitizer_set_death_callback(void (*callback)());
// A launch ends without freeing anything.
const char* __asan_default_options() { return "detect_leaks=0:detect_stack_use_after_return=0"; }
const char* __ubsan_default_options() { return "print_stacktrace=1"; }
}

namespace runtime {
namespace {

void read_all(void* to, std::size_t bytes) {
  if (std::fread(to, 1, bytes, stdin) == bytes) return;
  std::fprintf(stderr, "standard input ends early\n");
  std::exit(2);
}

Buffer& open_buffer(const std::string& description) {
  std::vector<std::string> parts(1);
  for (const char c : description) {
    if (c == ':') parts.emplace_back();
    else parts.back() += c;
  }
  const bool is_vast = parts[1].rfind("vast_", 0) == 0;
  const std::string role = is_vast ? parts[1].substr(5) : parts[1];
  const std::size_t bytes = std::stoull(parts[2]);
  Buffer& buffer = add_buffer(
      parts[0], role == "input" ? Role::input : role == "zeroed" ? Role::zeroed : Role::output,
      bytes, std::stoul(parts[3]));
  if (is_vast) return buffer;
  if (buffer.role == Role::input) read_all(buffer.begin, bytes);
  if (buffer.role == Role::output) std::memset(buffer.begin, 0xff, bytes);  // for floats, no number
  return buffer;
}

void find_program(void* library) {
  link_map* map;
  dlinfo(library, RTLD_DI_LINKMAP, &map);
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) {
        if (info->dlpi_addr != static_cast<link_map*>(data)->l_addr) return 0;
        program = {info->dlpi_addr, info->dlpi_addr};
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& part = info->dlpi_phdr[i];
          const std::uintptr_t end = info->dlpi_addr + part.p_vaddr + part.p_memsz;
          if (part.p_type == PT_LOAD && end > program.end) program.end = end;
        }
        return 1;
      },
      map);
}

// As in Metal, inputs and results have no subnormal floats.
void flush_subnormals() {
#if defined(__x86_64__)
  __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040);
#elif defined(__aarch64__)
  __builtin_aarch64_set_fpcr(__builtin_aarch64_get_fpcr() | 1u << 24);
#endif
}

int run(int count, char** words) {
  __sanitizer_set_death_callback([] {
    std::fprintf(stderr, "while %s runs\n", who_runs().c_str());
  });
  void* library = dlopen(words[1], RTLD_NOW);
  const auto kernel = library ? reinterpret_cast<Kernel>(dlsym(library, "run_thread")) : nullptr;
  if (kernel == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 2;
  }
  find_program(library);
  Grid grid;
  for (int axis = 0; axis < 3; ++axis) {
    grid.threads[axis] = std::stoul(words[2 + axis]);
    grid.group[axis] = std::stoul(words[5 + axis]);
  }
  grid.first = std::stoull(words[8]);
  grid.last = std::stoull(words[9]);
  grid.adds_in_pairs = std::strcmp(words[10], "tree") == 0;
  std::vector<Buffer*> buffers, wanted;
  std::vector<void*> arguments;
  for (int i = 11; i < count; ++i) {
    buffers.push_back(&open_buffer(words[i]));
    arguments.push_back(buffers.back()->begin);
    const bool is_vast = std::strstr(words[i], ":vast_") != nullptr;
    if (buffers.back()->role != Role::input && !is_vast) wanted.push_back(buffers.back());
  }
  flush_subnormals();
  run_grid(grid, kernel, arguments);
  for (const Buffer* buffer : wanted) std::fwrite(buffer->begin, 1, buffer->bytes, stdout);
  for (const Buffer* buffer : buffers) {
    const bool is_wanted = std::find(wanted.begin(), wanted.end(), buffer) != wanted.end();
    const std::size_t found[3] = {buffer->first, buffer->last, is_wanted ? unwritten(*buffer) : 0};
    std::fwrite(found, sizeof(found), 1, stdout);
  }
  std::fflush(stdout);
  _exit(0);
}

}  // namespace
}  // namespace runtime

int main(int count, char** words) { return runtime::run(count, words); }
