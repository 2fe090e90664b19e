"""`mypy --strict` accepts a user's script with the public names, and finds slips in it."""

import subprocess
import sys

import nerfmac
from tests.conftest import ROOT

SCRIPT = ROOT / "tests" / "typed_script.py"
SLIPS = """
nerfmac.load_scenes("lego")
run.evalute()
run.render("camera")
run.evaluate().psnr.upper()
override(config, 3)
"""


def test_mypy_strict_accepts_a_users_script_and_finds_its_slips(tmp_path):
    slips = tmp_path / "slips.py"
    slips.write_text(SCRIPT.read_text() + SLIPS)
    # Follow nerfmac's types, as for an installed package, but report on the scripts alone.
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", SCRIPT, slips]
    options = ["--config-file=", "--cache-dir", tmp_path / "cache", "--scripts-are-modules"]
    words = [str(word) for word in (*command, *options)]
    environment = {"MYPYPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True)
    found = [line for line in done.stdout.splitlines() if ": error: " in line]
    assert [line for line in found if "slips.py" not in line] == [], done.stderr
    first = len(SCRIPT.read_text().splitlines()) + 2
    lines = [int(line.split(":")[1]) for line in found]
    assert lines == list(range(first, first + 5)), found


def test_every_public_name_is_listed_and_there():
    assert len({*nerfmac.__all__}) == len(nerfmac.__all__)
    assert dir(nerfmac) == sorted(nerfmac.__all__)
    assert "Viewer" in dir(nerfmac)
    for name in nerfmac.__all__:
        assert getattr(nerfmac, name) is not None


def test_the_notebooks_packages_wait_until_the_viewer_is_asked_for():
    code = "import sys, nerfmac; dir(nerfmac); print('anywidget' in sys.modules); "
    code += "nerfmac.Viewer; print('anywidget' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
