"""Programs that stand in for what only a Mac has, or for what takes long."""

import stat
import sys
from pathlib import Path

XCRUN = """#!/bin/sh
[ "$1 $2" = "-sdk macosx" ] || exit 9
case "$3" in metal | metallib | metal-tt) ;; *) exit 9;; esac
case "$*" in
  *--version) echo "Apple metal version 32023.404 (a stand-in)"; exit;;
  *-std=metal4.0*) echo "error: invalid value 'metal4.0'" >&2; exit 1;;
esac
while [ $# -gt 0 ]; do
  case "$1" in -c) [ -r "$2" ] || exit 8;; -o) : > "$2"; exit;; esac
  shift
done
exit 7
"""
NERFMAC = f"""#!{sys.executable}
# Long commands are only asked whether they know their flags; the others do what they are told.
import sys
import nerfmac.app.cli
from nerfmac.app.cli.arguments import LOG_FILE, built, given_by
from nerfmac.app.cli.options import OPTIONS
command, *words = sys.argv[1:]
if command == "info" or "--dump-metal" in words:
    raise SystemExit(nerfmac.app.cli.main([command, *words]))
given = given_by(command, OPTIONS[command], words)
given.pop(LOG_FILE, None)
built(OPTIONS[command], given)
print("known:", command, *words)
"""
PYTHON = f"""#!/bin/sh
# Installs and tests nothing.
case "$2" in venv) mkdir -p .venv/bin; cp "$0" .venv/bin/python; exit;; pip | pytest) exit;; esac
exec {sys.executable} "$@"
"""


def write_programs(folder: Path, programs: dict[str, str]) -> Path:
    """Write each program's text to `folder`/bin, executable; returns that folder."""
    (folder / "bin").mkdir(exist_ok=True)
    for name, text in programs.items():
        path = folder / "bin" / name
        path.write_text(text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return folder / "bin"
