# make demo      train on the built-in scene and render a video of it
# make test      run the tests; ARGS="..." is passed on to pytest
# make test-apfs run the tests of files on Linux, in a folder that compares names as APFS on a Mac
# make lint      check style, types, and the wording of documentation, docstrings, and comments
# make format    format the code
# make clean     remove .venv and caches; runs stay
# make help      show these lines
#
# The environment is made in .venv on first use, by uv where it is installed, else by Python's own
# venv and pip. On Linux MLX runs on the CPU unless CUDA=1 is given. Nothing here installs anything
# on the system: scripts/install_clang.sh and scripts/install_chromium.sh do, once, for the tests
# that need clang++ and Chromium.

VENV ?= .venv
TRAIN_SECONDS ?= 60
ARGS ?=

SYSTEM := $(shell uname -s 2>/dev/null)
ifeq ($(SYSTEM),Linux)
  ifeq ($(CUDA),1)
    FLAVOUR := cuda
  else
    FLAVOUR := cpu
  endif
  PACKAGE := .[$(FLAVOUR),capture,notebook,export]
  PACKAGE_DEV := .[$(FLAVOUR),notebook,export,ingp,plot]
else
  FLAVOUR := metal
  PACKAGE := .[capture,notebook,export]
  PACKAGE_DEV := .[notebook,export,ingp,plot]
endif

BIN := $(VENV)/bin
MADE := $(VENV)/made-for-$(FLAVOUR)
INSTALLED := $(VENV)/installed
INSTALLED_DEV := $(VENV)/installed-dev

.PHONY: demo test test-apfs lint format clean help
.DEFAULT_GOAL := demo

demo: $(INSTALLED)
	@run="runs/demo-$$(date +%Y%m%d-%H%M%S)"; set -x; \
	"$(BIN)/python" -m nerfmac train --out "$$run" --seconds $(TRAIN_SECONDS) $(ARGS)

test: $(INSTALLED_DEV)
	"$(BIN)/python" -m pytest -n auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder $(ARGS)

test-apfs: $(INSTALLED_DEV)
	"$(BIN)/python" -m tests.apfs -n auto --maxprocesses 4 $(ARGS)

lint: $(INSTALLED_DEV)
	"$(BIN)/python" -m ruff check .
	"$(BIN)/python" -m ruff format --check .
	"$(BIN)/python" -m mypy
	"$(BIN)/python" scripts/prose_check.py --limit 5

format: $(INSTALLED_DEV)
	"$(BIN)/python" scripts/strip_notebooks.py
	"$(BIN)/python" -m ruff check --fix .
	"$(BIN)/python" -m ruff format .

help:
	@sed -n 's/^# \(make .*\)/\1/p' "$(firstword $(MAKEFILE_LIST))"

clean:
	rm -rf "$(VENV)" .pytest_cache .mypy_cache .ruff_cache build dist
	find nerfmac tests scripts -name __pycache__ -type d -prune -exec rm -rf {} +

$(INSTALLED): pyproject.toml $(MADE)
	@$(call install,$(PACKAGE))
	@touch $@

$(INSTALLED_DEV): pyproject.toml $(MADE)
	@$(call install,$(PACKAGE_DEV),--group dev)
	@touch $@ $(INSTALLED)

# The stamp names the back end: another one starts from an empty environment, because MLX's CPU and
# CUDA packages hold one file under the same name.
$(MADE):
	@$(make_environment)
	@touch $@

# pip learned --group in 25.1; an environment made by uv has no pip. Modules are compiled when they
# are first imported, which most never are. In ~/Documents and ~/Desktop macOS may hide .venv, and
# Python reads no hidden file that points to an editable package.
define install
set -e; \
echo "installing nerfmac and what it needs into $(VENV)"; \
if command -v uv >/dev/null 2>&1; then \
  uv pip install --quiet --python "$(BIN)/python" --editable "$(1)" $(2); \
else \
  "$(BIN)/python" -m pip install --quiet --upgrade "pip>=25.1"; \
  "$(BIN)/python" -m pip install --quiet --no-compile --editable "$(1)" $(2); \
fi; \
if [ "$(SYSTEM)" = Darwin ]; then chflags -R nohidden "$(VENV)"; fi
endef

# Whether a Python is one that MLX and the extras have packages for; on a Mac, one for Apple silicon.
FITS := 'import platform, sys; \
sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14) or \
(sys.platform == "darwin" and platform.machine() != "arm64"))'

# An environment made by hand is kept; one that this file made for another back end is not.
define make_environment
set -e; \
case "$(SYSTEM)" in Darwin | Linux) ;; *) \
  echo "nerfmac runs on macOS and Linux, not on $(or $(SYSTEM),Windows)." >&2; exit 2;; esac; \
if [ "$(SYSTEM)" = Darwin ]; then \
  if [ "$$(uname -m)" != arm64 ]; then \
    if [ "$$(sysctl -in sysctl.proc_translated)" = 1 ]; then \
      echo "This shell runs under Rosetta, as on an Intel Mac. Run: arch -arm64 make" >&2; \
    else \
      echo "nerfmac needs a Mac with Apple silicon; MLX does not run on this one." >&2; \
    fi; \
    exit 2; \
  fi; \
  macos="$$(sw_vers -productVersion)"; \
  if [ "$${macos%%.*}" -lt 14 ]; then \
    echo "MLX needs macOS 14 or newer, and this is macOS $$macos: update it." >&2; exit 2; \
  fi; \
fi; \
if ! ls "$(VENV)"/made-for-* >/dev/null 2>&1 && "$(BIN)/python" -c $(FITS) 2>/dev/null \
  && { command -v uv || "$(BIN)/python" -m pip --version; } >/dev/null 2>&1; then \
  echo "using $(VENV) as it is"; exit; \
fi; \
rm -rf "$(VENV)"; \
if command -v uv >/dev/null 2>&1; then uv venv --quiet "$(VENV)"; exit; fi; \
for python in $(PYTHON) python3 python3.13 python3.12 python3.11 python3.14; do \
  if "$$python" -c $(FITS) 2>/dev/null; then \
    echo "making $(VENV) with $$("$$python" --version)"; \
    exec "$$python" -m venv "$(VENV)"; \
  fi; \
done; \
echo "nerfmac needs Python 3.11 to 3.14 (on a Mac, Apple silicon's); python3 here is:" \
  "$$(python3 --version 2>&1)" >&2; \
echo "Install uv, which brings its own Python, and run make again:" >&2; \
echo "  brew install uv        or see https://docs.astral.sh/uv/" >&2; \
echo "or install Python from https://www.python.org/downloads/ and name it:" >&2; \
echo "  make PYTHON=/path/to/python3" >&2; \
exit 2
endef
