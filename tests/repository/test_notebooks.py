"""The notebooks, and how the public objects are shown in them."""

import io
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import nbformat
import numpy as np
import pytest
from nbclient import NotebookClient
from PIL import Image

from nerfmac import Rendered
from scripts.strip_notebooks import NOTEBOOKS, main
from tests.app.viewer.notebook.lab import jupyter_environment
from tests.conftest import daily_but

IN_FULL = "1_quick_start.ipynb"  # by tests/app/viewer/notebook/test_quick_start.py, in a browser
LONGEST = 300  # seconds that a cell may run
ALL = sorted(NOTEBOOKS.glob("*.ipynb"))
SHORTENED = [path for path in ALL if path.name != IN_FULL]
"""They show no less, but coarser."""
COARSER = """
def make_coarser():
    from nerfmac.config import override
    from nerfmac.config.presets import PRESETS

    march, train = {"steps": 64, "max_samples": 2**13}, {"rays": 256, "max_rays": 2**12}
    PRESETS["small"] = override(PRESETS["small"], march=march, train=train)

make_coarser()
del make_coarser
"""
"""Code that kernels run before the first cell: on a CPU, it reduces presets to a quarter."""
STEPS_A_SECOND = 3.2
"""Training has so many steps for each second: not fewer where much else runs."""
SHORTER = 4
"""By what all other lengths are divided."""
LENGTH = re.compile(r"(\btrain\([^)]*)?\b(seconds|steps)=(\d+(?:\.\d+)?)")
each_notebook = pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
MACHINE = re.compile(r"/(tmp|home|root|work|Users|private|var|opt)/|[A-Z]:\\|~/")


def machine_paths(path: Path) -> list[str]:
    """Return the lines of a notebook's cells that name a place of one machine."""
    cells = nbformat.read(path, as_version=4).cells
    return [line for cell in cells for line in cell.source.splitlines() if MACHINE.search(line)]


def shorten(path: Path) -> None:
    """Shorten each `seconds=` and `steps=` in a notebook's code, of training and of videos."""
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.source = LENGTH.sub(_shorter, cell.source)
    nbformat.write(notebook, path)


def _shorter(length: re.Match[str]) -> str:
    train, name, value = length.groups()
    if train and name == "seconds":
        return f"{train}steps={round(STEPS_A_SECOND * float(value))}"
    shorter = float(value) / SHORTER
    return f"{train or ''}{name}={max(int(shorter), 1) if name == 'steps' else shorter:g}"


@pytest.fixture
def run(tmp_path, monkeypatch) -> Callable[[Path], nbformat.NotebookNode]:
    """Run a notebook from top to bottom in its folder; returns it with its outputs."""
    environment = jupyter_environment(tmp_path)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    startup = Path(environment["IPYTHONDIR"]) / "profile_default" / "startup"
    startup.mkdir(parents=True)
    (startup / "coarser.py").write_text(COARSER, encoding="utf-8")

    def run_one(path: Path) -> nbformat.NotebookNode:
        notebook = nbformat.read(path, as_version=4)
        place = {"metadata": {"path": str(path.parent)}}
        return NotebookClient(notebook, timeout=LONGEST, resources=place).execute()

    return run_one


@each_notebook
def test_a_notebook_is_stored_with_its_cells_alone_and_about_no_particular_machine(path, tmp_path):
    copied = Path(shutil.copy(path, tmp_path))
    main([str(copied)])
    assert copied.read_text(encoding="utf-8") == path.read_text(encoding="utf-8"), "make format"
    assert machine_paths(path) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "path",
    daily_but(SHORTENED, *[path for path in SHORTENED if not path.stem.startswith("3_")]),
    ids=lambda path: path.stem,
)
def test_a_notebook_runs_from_top_to_bottom(run, path, tmp_path):
    folder = Path(shutil.copytree(NOTEBOOKS, tmp_path / "notebooks"))
    shorten(folder / path.name)
    cells = run(folder / path.name).cells
    code = [cell for cell in cells if cell.cell_type == "code" and cell.source.strip()]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    printed = [each for cell in code for each in cell.outputs if each.get("name") == "stderr"]
    assert printed == [], "a reader would see this in red"


def test_what_is_rendered_is_shown_as_its_image():
    color = np.random.default_rng(3).uniform(-0.1, 1.1, (5, 7, 3)).astype(np.float32)
    rendered = Rendered(color, np.full((5, 7), 0.25, np.float32), np.ones((5, 7), np.float32))
    image = np.array(Image.open(io.BytesIO(rendered._repr_png_())))
    assert np.abs(image / 255.0 - np.clip(color, 0.0, 1.0)).max() < 0.51 / 255.0
    assert repr(rendered) == "Rendered(7x5, mean opacity 0.25)"
