#!/usr/bin/env bash
# Install clang++ with its sanitizers: by them the tests judge and execute the kernels' Metal text.
# Does nothing where one is there. Run it once; Debian and Ubuntu need root or sudo for it.
set -euo pipefail

source "$(dirname "${BASH_SOURCE[0]}")/apt.sh"

# What the tests need of a compiler, in small: half precision, to be called before each access, and
# the lines of the source at run time. Without a kind of coverage (func) beside trace-loads clang
# makes no such calls, in silence; lines take the llvm-symbolizer that the sanitizers look for.
cat > "$scratch/probe.cpp" <<'CPP'
#include <cstddef>
#include <cstdlib>
#include <vector>

static int seen = 0;
#define SEEN __attribute__((no_sanitize("coverage", "address"))) void
extern "C" {
SEEN __sanitizer_cov_load1(void*) { ++seen; }
SEEN __sanitizer_cov_load2(void*) { ++seen; }
SEEN __sanitizer_cov_load4(void*) { ++seen; }
SEEN __sanitizer_cov_load8(void*) { ++seen; }
SEEN __sanitizer_cov_load16(void*) { ++seen; }
SEEN __sanitizer_cov_store1(void*) { ++seen; }
SEEN __sanitizer_cov_store2(void*) { ++seen; }
SEEN __sanitizer_cov_store4(void*) { ++seen; }
SEEN __sanitizer_cov_store8(void*) { ++seen; }
SEEN __sanitizer_cov_store16(void*) { ++seen; }
void __sanitizer_symbolize_pc(void* address, const char* format, char* to, std::size_t bytes);
}

static int line_of(void* address) {
  char line[256] = {};
  __sanitizer_symbolize_pc(address, "%l", line, sizeof(line) - 1);
  return std::atoi(line);
}

int main(int count, char**) {
  std::vector<_Float16> values(3, static_cast<_Float16>(count));
  values[count] += 4;
  if (seen == 0) return 1;
  return line_of(reinterpret_cast<void*>(&main)) > 0 ? 0 : 2;
}
CPP

# Prints the clang++ that the tests take: $NERFMAC_CLANG, or the first that is new enough.
names=(clang++ clang++-{21,20,19,18,17,16,15})
[ -z "${NERFMAC_CLANG:-}" ] || names=("$NERFMAC_CLANG")
taken() {
  local name
  for name in "${names[@]}"; do
    if [ "$(version_of "$name")" -ge 15 ]; then
      echo "$name"
      return
    fi
  done
  return 1
}

# Prints a compiler's major version; 0 if it is not there.
version_of() {
  local said
  said="$({ command -v "$1" && "$1" --version; } 2> /dev/null)" || said=""
  [[ "$said" =~ clang\ version\ ([0-9]+) ]] && echo "${BASH_REMATCH[1]}" || echo 0
}

# Whether what $1 builds runs; if not, why is in $scratch/said.
serves() {
  "$1" -std=c++17 -g -fsanitize=address,undefined \
    -fsanitize-coverage=func,trace-loads,trace-stores \
    "$scratch/probe.cpp" -o "$scratch/probe" > "$scratch/said" 2>&1 || return 1
  ASAN_OPTIONS=detect_leaks=0 "$scratch/probe" > "$scratch/ran" 2>&1 && return
  echo "$1 builds, but its program fails: $(tail -n 1 "$scratch/ran")" > "$scratch/said"
  return 1
}

# Prints the version to install of those that apt offers; the tests were written with 16.
offered() {
  local version
  for version in 16 17 18 19 20 21 15; do
    if apt-cache show "clang-$version" > /dev/null 2>&1; then
      echo "$version"
      return
    fi
  done
  return 1
}

# On a Mac without the tools, clang++ is a stand-in that opens a window.
if [ "$(uname -s)" = Darwin ] && ! xcode-select -p > /dev/null 2>&1; then
  fail "clang++ comes with Apple's command line tools: run xcode-select --install"
fi

version=""
if found="$(taken)"; then
  if serves "$found"; then
    echo "$found serves: $(command -v "$found")"
    exit
  fi
  echo "$found is here, but: $(head -n 1 "$scratch/said")"
  version="$(version_of "$found")" # what it lacks is to be of its own version
fi
if [ -n "${NERFMAC_CLANG:-}" ]; then
  fail "NERFMAC_CLANG=$NERFMAC_CLANG is no clang++ of version 15 or newer with its sanitizers"
fi

begin_apt "install clang 15 or newer with its sanitizers (compiler-rt) by this system's own means"
version="${version:-$(offered)}" || fail "apt-get knows no clang: $(tail -n 1 "$scratch/apt")"
packages=("clang-$version" "llvm-$version")
if apt-cache show "libclang-rt-$version-dev" > /dev/null 2>&1; then
  packages+=("libclang-rt-$version-dev") # else the sanitizers come with clang
fi
add_packages "${packages[@]}"
found="$(taken)" || fail "clang-$version is installed, but no clang++ of version 15 or newer is on the PATH"
serves "$found" || fail "clang-$version is installed, but: $(head -n 1 "$scratch/said")"
echo "$found serves: $(command -v "$found")"
