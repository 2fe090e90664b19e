#!/usr/bin/env bash
# Try an installed nerfmac away from the repository, on the CPU, with the extras capture, export and notebook.
#
#     bash scripts/check_install.sh ENVIRONMENT [FLAG OF nerfmac selftest ...]
#
# selftest, train, render, export, capture, and the viewer's server, each as a user starts it, in a folder
# that is deleted. Takes some minutes, most of them for selftest; ends at the first that fails.
set -euo pipefail
bin="$(cd "$1/bin" && pwd)"
tests="$(cd "$(dirname "${BASH_SOURCE[0]}")/../tests" && pwd)" # draws photos
shift
work="$(mktemp -d)"
server=
trap 'kill $server 2>/dev/null || true; rm -rf "$work"' EXIT
cd "$work"
unset PYTHONPATH
export PATH="$bin:$PATH" NERFMAC_CACHE="$work/cache" HOME="$work"

home="$(python -P -c 'import nerfmac; print(nerfmac.__file__)')"
case "$home" in
  */site-packages/nerfmac/*) ;;
  *) echo "not installed, but found in $home" >&2; exit 1;;
esac

set -x
nerfmac --version
nerfmac selftest --device cpu "$@"
nerfmac train --preset tiny --device cpu --steps 20 --no-video --out run
nerfmac render run --device cpu --frames 2 --size 64x48 --out video.mp4
nerfmac export run mesh.ply --device cpu --resolution 32 --threshold 0.01
nerfmac export run page.html --device cpu

mkdir photos path
ln -s "$tests" path/tests # without the nerfmac of the repository
PYTHONPATH=path python << 'END'
from tests.app.capture import corner
from PIL import Image

for number, camera in enumerate(corner.cameras(6)):
    Image.fromarray(corner.seen(camera)).save(f"photos/{number}.png")
END
nerfmac capture photos --out captured --matching exhaustive --focal-35mm 28
nerfmac inspect captured

port="$(python -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')"
nerfmac view run --lab --no-browser --port="$port" -- --allow-root &
server=$!
python - "$port" << 'END'
import sys, time, urllib.request

for patience in range(60, -1, -1):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{sys.argv[1]}/api") as answer:
            print(answer.read().decode())
        break
    except OSError:
        if not patience:
            raise
        time.sleep(1)
END
