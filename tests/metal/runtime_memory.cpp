// The callbacks at the end of this file are called for every load and store that a kernel makes
// (clang's -fsanitize-coverage=trace-loads,trace-stores).

#include "runtime_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>

#include "runtime.h"

extern "C" void __sanitizer_print_stack_trace();

namespace runtime {

Range own_stack, program;
Moment now[memories];

namespace {

// Buffer i is in the middle of zone i. A zone is so wide that an index which is negative, or has
// wrapped at 2^32, is still in the zone of its buffer. Only touched pages use memory.
constexpr std::size_t zone = std::size_t{1} << 36, before = zone / 4;
constexpr unsigned zones = 64;
std::uintptr_t arena = 0;
std::deque<Buffer> buffers;

void* reserve(std::size_t bytes, int protection) {
  void* memory =
      mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    std::perror("reserving address space");
    std::exit(2);
  }
  return memory;
}

std::size_t grains(const Buffer& buffer) { return buffer.bytes / buffer.grain; }

std::string element(const Buffer& buffer, std::uintptr_t address) {
  const long offset = long(address) - long(buffer.begin), size = buffer.element;
  const long index = (offset >= 0 ? offset : offset - size + 1) / size;
  const long rest = offset - index * size;
  const std::string name = buffer.name + "[" + std::to_string(index) + "]";
  return rest == 0 ? name : name + " + " + std::to_string(rest) + " bytes";
}

const char* verb(Access access) {
  return access == read ? "read" : access == written ? "written" : "changed atomically";
}

std::string touched(
    const Buffer& buffer, std::uintptr_t address, Access access, Moment moment) {
  return element(buffer, address) + " is " + verb(access) + " by " + who(moment);
}

bool has_value(const Buffer& buffer, std::size_t index) {
  return buffer.role == Role::zeroed || buffer.records[index].of[written].group != 0;
}

// Whether the current access and the summarized accesses have no barrier between them.
bool is_unordered(Moment past, Moment now) {
  if (past.group == 0) return false;
  if (past.group != now.group) return true;
  if (past.epoch != now.epoch) return false;
  if (past.simdgroup != now.simdgroup) return true;
  return past.step == now.step && past.lane != now.lane;
}

// Adds the current access. Older accesses of the same threadgroup (simdgroup) are ordered before
// all possible later ones in it; the record keeps the group that they belong to.
void add(Moment& sum, Moment now) {
  if (sum.group == 0) {
    sum = now;
  } else if (sum.group != now.group) {
    sum.group = many_groups;
  } else if (sum.epoch != now.epoch) {
    sum = now;
  } else if (sum.simdgroup != now.simdgroup) {
    sum.simdgroup = many_simdgroups;
  } else if (sum.step != now.step) {
    sum = now;
  } else if (sum.lane != now.lane) {
    sum.lane = many_lanes;
  }
}

void check_race(const Buffer& buffer, std::size_t index, Access access, Access other, Moment now) {
  const Moment past = buffer.records[index].of[other];
  if (!is_unordered(past, now)) return;
  const std::uintptr_t address = std::uintptr_t(buffer.begin) + index * buffer.grain;
  broken("race", touched(buffer, address, access, now) + " and was " + verb(other) + " by " +
                     who(past) + ", with no barrier between");
}

void touch_elsewhere(std::uintptr_t address, Access access) {
  if (own_stack.holds(address) || (access == read && program.holds(address))) return;
  char hexadecimal[32];
  std::snprintf(hexadecimal, sizeof(hexadecimal), "%#zx", std::size_t(address));
  broken("out of bounds", std::string("address ") + hexadecimal + ", in no buffer and not in the " +
                              "thread's own memory, is " + verb(access) + " by " + who(now[0]));
}

void touch(const volatile void* where, std::size_t bytes, Access access) {
  if (now[0].group == 0) return;
  const std::uintptr_t address = std::uintptr_t(where), offset = address - arena;
  if (offset >= zone * buffers.size()) return touch_elsewhere(address, access);
  Buffer& buffer = buffers[offset / zone];
  const std::size_t first = address - std::uintptr_t(buffer.begin);
  if (first >= buffer.bytes || bytes > buffer.bytes - first) {
    const std::string size = std::to_string(buffer.bytes / buffer.element);
    broken("out of bounds", touched(buffer, address, access, now[0]) + "; " + buffer.name +
                                " has " + size + " elements");
  }
  buffer.first = first < buffer.first ? first : buffer.first;
  buffer.last = first + bytes > buffer.last ? first + bytes : buffer.last;
  if (buffer.role == Role::input) {
    if (access == read) return;
    broken("input written", touched(buffer, address, access, now[0]));
  }
  const Moment moment = now[buffer.role == Role::threadgroup ? in_threadgroup : in_device];
  const std::size_t last = (first + bytes - 1) / buffer.grain;
  for (std::size_t i = first / buffer.grain; i <= last; ++i) {
    Moment* of = buffer.records[i].of;
    if (access != written && !has_value(buffer, i)) {
      broken("unwritten memory read",
             touched(buffer, address, access, now[0]) + " before anyone wrote it");
    }
    if (access != read) check_race(buffer, i, access, read, moment);
    check_race(buffer, i, access, written, moment);
    if (access != atomic) check_race(buffer, i, access, atomic, moment);
    add(of[access], moment);
  }
}

// The alignment of all types is their size, as in Metal; clang checks it in private memory only.
void access(const volatile void* where, unsigned bytes, Access access) {
  touch(where, bytes, access);
  const std::uintptr_t address = std::uintptr_t(where), offset = address - arena;
  if (address % bytes == 0 || now[0].group == 0 || offset >= zone * buffers.size()) return;
  broken("misaligned", touched(buffers[offset / zone], address, access, now[0]) + " in " +
                           std::to_string(bytes) + " bytes at once");
}

template <unsigned bytes>
void recorded(const volatile void* where, Access kind) {
  if (own_stack.holds(std::uintptr_t(where))) return;  // most are
  access(where, bytes, kind);
}

}  // namespace

Buffer& add_buffer(const std::string& name, Role role, std::size_t bytes, unsigned element) {
  if (arena == 0) arena = std::uintptr_t(reserve(zone * zones, PROT_NONE));
  if (buffers.size() == zones || bytes > before) {
    std::fprintf(stderr, "more than %u buffers, or more than %zu bytes in one\n", zones, before);
    std::exit(2);
  }
  char* begin = reinterpret_cast<char*>(arena + buffers.size() * zone + before);
  if (bytes > 0 && mprotect(begin, bytes, PROT_READ | PROT_WRITE) != 0) {
    std::perror("opening a buffer");
    std::exit(2);
  }
  Buffer buffer{name, role, bytes, element, element <= 8 ? element : 1, begin};
  if (role != Role::input && bytes > 0) {
    buffer.records =
        static_cast<Record*>(reserve(grains(buffer) * sizeof(Record), PROT_READ | PROT_WRITE));
  }
  buffers.push_back(buffer);
  return buffers.back();
}

void forget_threadgroup_memory() {
  for (Buffer& buffer : buffers) {
    if (buffer.role != Role::threadgroup) continue;
    std::memset(static_cast<void*>(buffer.records), 0, grains(buffer) * sizeof(Record));
  }
}

std::size_t unwritten(const Buffer& buffer) {
  if (buffer.role != Role::output) return 0;
  std::size_t count = 0;
  for (std::size_t i = 0; i < grains(buffer); ++i) count += !has_value(buffer, i);
  return count;
}

void broken(const char* rule, const std::string& what) {
  now[0].group = 0;
  std::fprintf(stderr, "\nbroken rule: %s: %s\n", rule, what.c_str());
  __sanitizer_print_stack_trace();
  std::fflush(stderr);
  _exit(1);
}

void atomic_access(const volatile void* address, unsigned bytes) {
  touch(address, bytes, atomic);
}

void plain_access(const volatile void* address, unsigned bytes, bool is_write) {
  access(address, bytes, is_write ? written : read);
}

}  // namespace runtime

using runtime::recorded;
using runtime::touch;

extern "C" {

void __sanitizer_cov_load1(void* address) { recorded<1>(address, runtime::read); }
void __sanitizer_cov_load2(void* address) { recorded<2>(address, runtime::read); }
void __sanitizer_cov_load4(void* address) { recorded<4>(address, runtime::read); }
void __sanitizer_cov_load8(void* address) { recorded<8>(address, runtime::read); }
void __sanitizer_cov_load16(void* address) { recorded<16>(address, runtime::read); }
void __sanitizer_cov_store1(void* address) { recorded<1>(address, runtime::written); }
void __sanitizer_cov_store2(void* address) { recorded<2>(address, runtime::written); }
void __sanitizer_cov_store4(void* address) { recorded<4>(address, runtime::written); }
void __sanitizer_cov_store8(void* address) { recorded<8>(address, runtime::written); }
void __sanitizer_cov_store16(void* address) { recorded<16>(address, runtime::written); }

// A copied struct is not a load and store but one of these calls. The kernel is linked to these
// functions instead of AddressSanitizer's, and the C library functions still make the same checks.
void* __wrap___asan_memcpy(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) touch(from, bytes, runtime::read), touch(to, bytes, runtime::written);
  return std::memcpy(to, from, bytes);
}
void* __wrap___asan_memmove(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) touch(from, bytes, runtime::read), touch(to, bytes, runtime::written);
  return std::memmove(to, from, bytes);
}
void* __wrap___asan_memset(void* to, int value, std::size_t bytes) {
  if (bytes > 0) touch(to, bytes, runtime::written);
  return std::memset(to, value, bytes);
}
}
