#!/usr/bin/env bash
# Install Chromium: in it the tests use the viewer, without a window. Does nothing where a Chrome or
# a Chromium serves. Run it once; Debian and Ubuntu need root or sudo for it.
set -euo pipefail

source "$(dirname "${BASH_SOURCE[0]}")/apt.sh"

# Where the tests look, in their order: $NERFMAC_CHROMIUM, or one of these.
names=(google-chrome-stable google-chrome chromium chromium-browser)
if [ "$(uname -s)" = Darwin ]; then
  names+=("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")
  names+=("/Applications/Chromium.app/Contents/MacOS/Chromium")
fi
[ -z "${NERFMAC_CHROMIUM:-}" ] || names=("$NERFMAC_CHROMIUM")

# Prints the browser that the tests take.
taken() {
  local name
  for name in "${names[@]}"; do
    if command -v "$name"; then
      return
    fi
  done
  return 1
}

# Whether $1 shows a page without a window; if not, why is in $scratch/said. Ubuntu's chromium is a
# script that asks for a snap.
serves() {
  "$1" --headless --no-sandbox --disable-gpu --no-first-run --user-data-dir="$scratch/profile" \
    --dump-dom "data:text/html,<p>it serves</p>" > "$scratch/shown" 2> "$scratch/said" &&
    grep -q "<p>it serves</p>" "$scratch/shown"
}

if found="$(taken)"; then
  if serves "$found"; then
    echo "$found serves: $("$found" --version 2> /dev/null)"
    exit
  fi
  fail "$found is here, but shows no page: $(tail -n 1 "$scratch/said")"
fi
if [ -n "${NERFMAC_CHROMIUM:-}" ]; then
  fail "NERFMAC_CHROMIUM=$NERFMAC_CHROMIUM is no program"
fi
if [ "$(uname -s)" = Darwin ]; then
  fail "install Chrome from https://www.google.com/chrome, or run brew install --cask google-chrome"
fi
begin_apt "install Chrome or Chromium by this system's own means"
if apt-cache show chromium 2> /dev/null | grep -qi "snap"; then
  fail "this system's chromium is a snap, which the tests cannot use: install Chrome from https://www.google.com/chrome"
fi
add_packages chromium
found="$(taken)" || fail "chromium is installed, but is not on the PATH"
serves "$found" || fail "chromium is installed, but shows no page: $(tail -n 1 "$scratch/said")"
echo "$found serves: $("$found" --version 2> /dev/null)"
