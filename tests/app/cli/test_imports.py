"""Imports of commands: training must not load measurement modules."""

import subprocess
import sys

import pytest

from nerfmac.app.cli import COMMANDS

HELP = [[command, "--help"] for command in COMMANDS]
SHOWN = "import sys, {}; print(*(name for name in sys.modules if name.startswith('nerfmac')))"


def imported(module):
    command = [sys.executable, "-c", SHOWN.format(module)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()


def test_training_imports_nothing_that_measures():
    names = imported("nerfmac.app.cli.train")
    assert "nerfmac.training.trainer" in names
    assert [name for name in names if name.startswith("nerfmac.app.measure")] == []


def test_the_viewer_imports_nothing_that_measures():
    names = imported("nerfmac.app.viewer.training")
    assert [name for name in names if name.startswith("nerfmac.app.measure")] == []


@pytest.mark.parametrize("words", [["--help"], ["process-data"], *HELP])
def test_what_needs_no_computation_imports_no_library(words):
    """Help pages appear at once, and also if MLX is not installed."""
    code = f"import sys, nerfmac.app.cli\ntry: nerfmac.app.cli.main({words})\n"
    code += "finally: print(*sys.modules, file=sys.stderr)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stderr
    imported = {name.partition(".")[0] for name in told.split()}
    assert imported & {"nerfmac", "mlx", "numpy", "PIL", "tqdm"} == {"nerfmac"}
