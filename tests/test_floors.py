"""The package's structure: who may import whom, and how long a file may grow."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "nerfmac"
LONGEST = 320  # lines of a file
FLOORS = (
    ("config", "checks", "files", "version"),
    ("backend", "cameras", "cells", "colour", "rays", "samples"),
    ("ops", "scenes"),
    ("encoding", "mlp", "field", "occupancy"),
    ("render", "turns", "losses", "metrics", "state", "clock"),
    ("optim", "trainer", "checkpoint", "evaluate", "distributed"),
    (
        "paths",
        "keyframes",
        "video",
        "export",
        "run",
        "machine",
        "selftest",
        "viewer",
        "bench",
        "cli",
    ),
    ("__init__", "__main__"),  # above all: the public names, and `python -m nerfmac`
)
FLOOR = {module: floor for floor, modules in enumerate(FLOORS) for module in modules}


def room(path: Path, package: Path) -> str:
    """Return the module or folder directly under `package` that `path` belongs to."""
    return path.relative_to(package).with_suffix("").parts[0]


def imports(source: str, package: Path) -> Iterator[tuple[int, str]]:
    """Yield line and room of each import from nerfmac, those inside functions included.

    A relative import yields the room "."; `from nerfmac import x` is the module x if there is one,
    else a public name, that is the package itself.
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.level:
            yield node.lineno, "."
        elif isinstance(node, ast.ImportFrom) and node.module == package.name:
            for alias in node.names:
                is_module = alias.name in FLOOR or _is_module(package / alias.name)
                yield node.lineno, alias.name if is_module else "__init__"
        else:
            named = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            named += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for name in named:
                top, *inner = name.split(".")
                if top == package.name:
                    yield node.lineno, inner[0] if inner else "__init__"


def _is_module(path: Path) -> bool:
    return path.is_dir() or path.with_suffix(".py").is_file()


def faults(package: Path) -> list[str]:
    """Return what breaks the rule of floors in `package`, a line each."""
    found = []
    for path in sorted(package.rglob("*.py")):
        own, place = room(path, package), path.relative_to(package)
        if own not in FLOOR:
            found.append(f"{place}: {own} stands on no floor")
            continue
        for line, used in imports(path.read_text(encoding="utf-8"), package):
            if used == ".":
                found.append(f"{place}:{line}: a relative import")
            elif used not in FLOOR:
                found.append(f"{place}:{line}: {used} stands on no floor")
            elif FLOOR[used] > FLOOR[own]:
                found.append(f"{place}:{line}: {own} may not import {used}, which is above it")
    return found


def too_long(root: Path) -> list[str]:
    """Return the kernels and Python files under `root` of more than LONGEST lines."""
    kinds = {".py", ".metal", ".h", ".cpp", ".js", ".css"}
    folders = [root / name for name in ("nerfmac", "kernels", "scripts", "tests")]
    paths = [path for folder in folders for path in sorted(folder.rglob("*"))]
    counts = {
        p: len(p.read_text(encoding="utf-8").splitlines()) for p in paths if p.suffix in kinds
    }
    return [
        f"{p.relative_to(root)}: {count} lines" for p, count in counts.items() if count > LONGEST
    ]


def test_imports_point_down():
    assert any(PACKAGE.rglob("*.py")), "nothing was looked at"
    assert faults(PACKAGE) == []


def test_no_file_outgrows_one_sitting():
    assert too_long(ROOT) == []


PLANTED = [
    ("rays.py", "from nerfmac.trainer import fit", "rays.py:1: rays may not import trainer"),
    ("rays.py", "import nerfmac.trainer as t", "rays may not import trainer"),
    ("rays.py", "from nerfmac import trainer", "rays may not import trainer"),
    ("rays.py", "from nerfmac import fit", "rays may not import __init__"),
    ("rays.py", "import nerfmac", "rays may not import __init__"),
    ("rays.py", "def f():\n    from nerfmac.trainer import fit", "rays.py:2: rays may not"),
    ("ops/march.py", "from nerfmac.occupancy import Grid", "ops/march.py:1: ops may not"),
    ("ops/march.py", "from . import hash", "ops/march.py:1: a relative import"),
    ("ops/march.py", "from ..checks import shape", "a relative import"),
    ("sky.py", "", "sky.py: sky stands on no floor"),
    ("rays.py", "from nerfmac.sky import blue", "rays.py:1: sky stands on no floor"),
]


@pytest.mark.parametrize(("name", "source", "fault"), PLANTED)
def test_a_planted_fault_is_found(tmp_path, name, source, fault):
    planted = tmp_path / "nerfmac" / name
    planted.parent.mkdir(parents=True)
    planted.write_text(source)
    (found,) = faults(tmp_path / "nerfmac")
    assert fault in found


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("trainer.py", "from nerfmac.rays import Rays\nimport nerfmac.ops.march"),
        ("trainer.py", "from nerfmac import checks, optim"),
        ("cli/train.py", "import numpy\nfrom nerfmac.cli.common import scene"),
        ("__init__.py", "from nerfmac.trainer import fit"),
        ("__main__.py", "from nerfmac.cli import main"),
    ],
)
def test_an_import_that_is_allowed_is_let_through(tmp_path, name, source):
    allowed = tmp_path / "nerfmac" / name
    allowed.parent.mkdir(parents=True)
    allowed.write_text(source)
    assert faults(tmp_path / "nerfmac") == []


@pytest.mark.parametrize(
    "name", ["nerfmac/rays.py", "kernels/dialects/cuda/tile.h", "kernels/a.metal"]
)
def test_a_file_one_line_too_long_is_found(tmp_path, name):
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).write_text("//\n" * LONGEST)
    assert too_long(tmp_path) == []
    (tmp_path / name).write_text("//\n" * (LONGEST + 1))
    assert too_long(tmp_path) == [f"{name}: 321 lines"]
