#include "runtime_fiber.h"

#include <sys/mman.h>
#include <ucontext.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

extern "C" {
void __sanitizer_start_switch_fiber(void** fake_stack, const void* bottom, std::size_t size);
void __sanitizer_finish_switch_fiber(void* fake_stack, const void** bottom, std::size_t* size);
void __sanitizer_symbolize_pc(void* address, const char* format, char* to, std::size_t bytes);
}

namespace runtime {
namespace {

constexpr std::size_t stack_bytes = std::size_t{1} << 20, page = 4096;

// Buffer for the setjmp and longjmp builtins of the compiler. With the functions of the C library,
// or its swapcontext, AddressSanitizer would lose its records of the stacks.
using Jump = void* [5];

Jump scheduler;
const void* scheduler_stack;
std::size_t scheduler_stack_bytes;

struct Worker : Fiber {
  void (*work)();
  Jump place;
  bool has_begun = false;
};
Worker* running;
std::vector<Worker*> idle;

void work_for_ever() {
  __sanitizer_finish_switch_fiber(nullptr, &scheduler_stack, &scheduler_stack_bytes);
  for (;;) {
    Worker* self = running;
    self->work();
    idle.push_back(self);
    give_way(self);
  }
}

// A separate function, so that it is not part of the function that calls setjmp.
[[noreturn]] __attribute__((noinline)) void jump(Jump& to) { __builtin_longjmp(to, 1); }

[[noreturn]] void begin(Worker* worker) {
  worker->has_begun = true;
  ucontext_t context;
  getcontext(&context);
  context.uc_stack.ss_sp = reinterpret_cast<void*>(worker->stack.begin);
  context.uc_stack.ss_size = stack_bytes;
  makecontext(&context, work_for_ever, 0);
  setcontext(&context);
  std::abort();
}

Worker* new_worker() {
  void* memory = mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  // The lowest page is inaccessible: a stack overflow ends the program.
  if (memory == MAP_FAILED || mprotect(memory, page, PROT_NONE) != 0) {
    std::perror("allocating a stack");
    std::exit(2);
  }
  Worker* worker = new Worker;
  worker->stack = {std::uintptr_t(memory), std::uintptr_t(memory) + stack_bytes};
  return worker;
}

}  // namespace

Fiber* idle_fiber(void (*work)()) {
  if (idle.empty()) idle.push_back(new_worker());
  Worker* worker = idle.back();
  idle.pop_back();
  worker->work = work;
  return worker;
}

void resume(Fiber* fiber) {
  running = static_cast<Worker*>(fiber);
  void* fake_stack;
  const void* bottom = reinterpret_cast<const void*>(fiber->stack.begin);
  __sanitizer_start_switch_fiber(&fake_stack, bottom, stack_bytes);
  if (__builtin_setjmp(scheduler) == 0) {
    if (running->has_begun) jump(running->place);
    begin(running);
  }
  __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
}

void give_way(Fiber* fiber) {
  void* fake_stack;
  __sanitizer_start_switch_fiber(&fake_stack, scheduler_stack, scheduler_stack_bytes);
  if (__builtin_setjmp(static_cast<Worker*>(fiber)->place) == 0) jump(scheduler);
  __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
}

std::string line_of(const Calls& calls) {
  for (void* address : calls.addresses) {
    char lines[4096] = {};  // one line for each inlined call, and an empty one
    __sanitizer_symbolize_pc(address, "%s %l", lines, sizeof(lines) - 1);
    for (const char* line = lines; *line != 0; line += std::strlen(line) + 1) {
      if (std::strstr(line, "/metal_") == nullptr) return std::strrchr(line, ' ') + 1;
    }
  }
  return "?";
}

}  // namespace runtime
