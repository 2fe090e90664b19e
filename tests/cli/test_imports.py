"""What a verb imports: training does not load what measures."""

import subprocess
import sys

SHOWN = "import sys, {}; print(*(name for name in sys.modules if name.startswith('nerfmac')))"


def imported(module):
    command = [sys.executable, "-c", SHOWN.format(module)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()


def test_training_imports_nothing_that_measures():
    names = imported("nerfmac.cli.train")
    assert "nerfmac.training.trainer" in names
    assert [name for name in names if name.startswith("nerfmac.measure")] == []


def test_the_viewer_imports_nothing_that_measures():
    names = imported("nerfmac.viewer.training")
    assert [name for name in names if name.startswith("nerfmac.measure")] == []
