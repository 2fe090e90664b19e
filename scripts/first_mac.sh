#!/usr/bin/env bash
# For the owner of a Mac: install nerfmac in .venv, try it, and leave one file to send.
#
#     bash scripts/first_mac.sh [SECONDS]
#
# takes about SECONDS (60) of training and ten minutes more, and asks nothing. Every step's output is
# kept, also that of a step that fails. The file holds these outputs, figures and images of the
# built-in scene; the home folder's path and the machine's name are cut out of it.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

seconds="${1:-60}"
venv="${VENV:-.venv}"
out="first-mac"
failed=()
rm -rf "$out"
mkdir -p "$out"

# step NAME LIMIT COMMAND...: run a command for at most LIMIT seconds; keep what it says.
step() {
  local name="$1" limit="$2" code=0 begin=$SECONDS
  shift 2
  printf '%-12s %s\n' "$name" "$*"
  perl -e 'alarm shift; exec @ARGV or exit 127' "$limit" "$@" > "$out/$name.txt" 2>&1 || code=$?
  printf '%s: exit code %s after %s s: %s\n' "$name" "$code" "$((SECONDS - begin))" "$*" \
    >> "$out/steps.txt"
  if [ "$code" -ne 0 ]; then
    failed+=("$name")
    tail -n 3 "$out/$name.txt" | sed 's/^/             /'
  fi
  return "$code"
}

# Without Apple's command line tools, git, xcrun, and python3 only open a window that offers them.
has_tools() {
  [ "$(uname -s)" != Darwin ] || xcode-select -p > /dev/null 2>&1
}

system() {
  uname -srm
  sw_vers
  sysctl -n machdep.cpu.brand_string hw.memsize hw.optional.arm64 sysctl.proc_translated
  xcode-select -p
  if has_tools; then git describe --always --dirty; fi
  return 0 # each is a fact if it is there
}

# The environment: one that is there, else uv's, else Python's own. In ~/Documents and ~/Desktop macOS
# may hide it, and Python reads no hidden file that points to an editable package.
install() {
  [ -x "$venv/bin/nerfmac" ] || make_environment || return
  [ "$(uname -s)" != Darwin ] || chflags -R nohidden "$venv"
}

make_environment() {
  local package="."
  [ "$(uname -s)" = Linux ] && package=".[cpu]"
  if command -v uv > /dev/null; then
    local managed=()
    has_tools || managed=(--python-preference only-managed)
    uv venv ${managed[@]+"${managed[@]}"} "$venv" &&
      uv pip install --python "$venv/bin/python" --editable "$package"
  elif ! has_tools; then
    echo "neither uv nor Python is here: install uv, or Apple's tools by xcode-select --install"
    return 1
  else
    python3 -m venv "$venv" && "$venv/bin/python" -m pip install --editable "$package"
  fi
}

compile() {
  if ! has_tools; then
    echo "Apple's command line tools are not installed"
    return 0
  fi
  xcrun -sdk macosx metal --version || return 0 # only Xcode has it
  "$venv/bin/nerfmac" selftest --dump-metal "$scratch/metal-text" &&
    "$venv/bin/python" scripts/compile_metal.py "$scratch/metal-text" --json "$out/metal.json"
}

scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
export -f has_tools system install make_environment compile
export venv out scratch

step system 60 bash -c system
if step install 900 bash -c install; then
  nerfmac="$venv/bin/nerfmac"
  step info 120 "$nerfmac" info
  step probe 600 "$venv/bin/python" scripts/probe_metal.py
  step train 1800 "$nerfmac" train --seconds "$seconds" --out "$scratch/run" --log-file "$out/train.log"
  # A CPU would take minutes for base, which is what Macs train.
  [ "$(uname -s)" != Darwin ] || step base 900 "$nerfmac" train --preset base --steps 200 --out "$scratch/base" --no-video
  step selftest 1800 "$nerfmac" selftest --report "$out/selftest.json"
  step profile 900 "$nerfmac" profile --json "$out/profile.json"
  step compile 1800 bash -c compile
  for file in metrics.json config.json preview.png; do
    for run in run base; do
      if [ -f "$scratch/$run/$file" ]; then cp "$scratch/$run/$file" "$out/$run-$file"; fi
    done
  done
fi

# Nobody's name: not of the home folder, not of the machine.
for file in "$out"/*.txt "$out"/*.json "$out"/*.log; do
  if [ -f "$file" ]; then
    HOST="$(hostname 2> /dev/null)" perl -pi -e \
      's/\Q$ENV{HOME}\E/~/g if $ENV{HOME}; s/\b\Q$ENV{HOST}\E\b/this machine/g if length $ENV{HOST} > 3' "$file"
  fi
done
archive="first-mac-$(date +%Y%m%d-%H%M%S).tar.gz"
tar -czf "$archive" "$out"
echo
if [ "${#failed[@]}" -gt 0 ]; then echo "steps that failed: ${failed[*]}"; fi
echo "please attach $PWD/$archive to an issue; $out holds what is in it"
[ "${#failed[@]}" -eq 0 ]
