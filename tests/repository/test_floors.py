"""The package's structure: its imports, and the sizes of its files and functions."""

import ast
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from pathlib import Path
from types import ModuleType

import grimp
import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "nerfmac"
LONGEST = 400  # lines of a file, without the docstrings of its functions
LONGEST_FUNCTION = 60  # lines of a function, without its docstring
MOST_METHODS = 15  # Maximum number of methods of a class of the viewer and of training.
CEILINGS = {
    "version": 40,
    "common": 758,
    "config": 821,
    "backend": 1460,
    "geometry": 894,
    "ranks": 220,
    "ops": 1979,
    "fields": 384,
    "sampling": 376,
    "rendering": 752,
    "refine": 371,
    "training": 1302,
    "scenes": 3580,
    "paths": 765,
    "datasets": 175,
    "capture": 2309,
    "inspection": 716,
    "run": 1385,
    "snapshots": 418,
    "video": 671,
    "export": 1258,
    "viewer": 2164,
    "measure": 1325,
    "cli": 1548,
    "__init__": 19,
    "__main__": 3,
    "public": 85,
}
"""Maximum number of code lines of each package, without docstrings and comments. A change that
makes a package smaller lowers its ceiling, and a feature deletes what it replaces."""
MOST_TEST_LINES = 29_362
"""Maximum number of code lines of the tests, which also may only fall."""
LIBRARY = (
    ("version", "common", "config"),
    ("backend", "geometry", "ranks"),
    ("ops",),
    ("fields",),
    ("sampling",),
    ("rendering",),
    ("refine",),
    ("training",),
)
"""Packages of the method. They contain no file formats, no command line, and no viewer."""
APPLICATION = (
    ("scenes", "paths", "datasets"),
    ("capture",),
    ("inspection",),
    ("run",),
    ("snapshots", "video", "export", "viewer", "measure"),
    ("cli",),
)
"""The packages in `nerfmac/app/`."""
FLOORS = (
    *LIBRARY,
    *APPLICATION,
    ("__init__", "__main__", "public"),  # the public names, and `python -m nerfmac`
)
LOOSE = {"version", "common", *FLOORS[-1]}
"""Modules that every other module or package of the same layer may import."""
APPLICATIONS = len(FLOORS) - 3
"""The layer with packages that import from each other's `__init__`."""
FLOOR = {module: floor for floor, modules in enumerate(FLOORS) for module in modules}


def room(path: Path, package: Path) -> str:
    """Return the module or folder of `package` or of `package`/app that `path` belongs to."""
    return _room(path.relative_to(package).with_suffix("").parts)


def _room(parts: Sequence[str]) -> str:
    """The module or folder that a path or dotted name begins with; `app` alone is `__init__`."""
    if not parts or list(parts) in (["app"], ["app", "__init__"]):
        return "__init__"
    return parts[1] if parts[0] == "app" else parts[0]


@cache
def functions_of(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Return the functions anywhere in a file."""
    found = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return [node for node in found if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def graph_of(package: str) -> grimp.ImportGraph:
    """Return which modules of a package import which, also inside functions and for types."""
    return grimp.build_graph(package, cache_dir=None)


def faults(graph: grimp.ImportGraph, package: str = "nerfmac") -> list[str]:
    found = []
    for module in sorted(graph.modules - {package}):
        own = _room(module.split(".")[1:])
        if own not in FLOOR:
            found.append(f"{module}: {own} stands on no floor")
            continue
        for used in graph.find_modules_directly_imported_by(module) - {package}:
            inner = used.split(".")[1:]
            reaches_in = len(inner) > (2 if inner[0] == "app" else 1)
            if fault := _fault(own, _room(inner), reaches_in):
                found.append(f"{module}: {fault}")
    return found


def _fault(own: str, used: str, reaches_in: bool) -> str | None:
    """Return why package `own` may not import `used`, or None if it may."""
    if used not in FLOOR:
        return f"{used} stands on no floor"
    if FLOOR[used] > FLOOR[own]:
        return f"{own} may not import {used}, which is above it"
    if FLOOR[used] < FLOOR[own] or used == own or used in LOOSE:
        return None
    if FLOOR[own] != APPLICATIONS:
        return f"{own} may not import {used}, which is beside it"
    if reaches_in:
        return f"{own} may import from {used} only what stands in its __init__"
    return None


def circle(graph: grimp.ImportGraph) -> list[str]:
    """Return modules that import each other in a circle; empty if there is none."""
    try:
        TopologicalSorter(
            {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
        ).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def too_long(root: Path) -> list[str]:
    kinds = {".py", ".metal", ".h", ".cpp", ".js", ".css"}
    folders = [root / name for name in ("nerfmac", "kernels", "scripts", "tests")]
    paths = [path for folder in folders for path in sorted(folder.rglob("*"))]
    counts = {p: _code_lines(p) for p in paths if p.suffix in kinds}
    return [
        f"{p.relative_to(root)}: {count} lines" for p, count in counts.items() if count > LONGEST
    ]


def test_imports_point_down_and_never_in_a_circle():
    graph = graph_of("nerfmac")
    assert faults(graph) == []
    assert circle(graph) == []
    # These calls import modules that the graph does not show.
    dynamic = {room(p, PACKAGE) for p in PACKAGE.rglob("*.py") if "import_module(" in p.read_text()}
    assert dynamic == {"__init__", "common", "cli"}


def test_no_door_hides_a_module_of_its_package():
    names = [name.rpartition(".") for name in sorted(graph_of("nerfmac").modules - {"nerfmac"})]
    shown = {(door, name): vars(import_module(door)).get(name, ast) for door, _, name in names}
    assert [key for key, value in shown.items() if not isinstance(value, ModuleType)] == []


def loaded_by(module: str) -> list[str]:
    command = [sys.executable, "-c", f"import sys, {module}; print(*sys.modules)"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [name for name in printed.split() if name.partition(".")[0] == "nerfmac"]


def test_the_training_step_loads_the_library_alone():
    ours = loaded_by("nerfmac.training.trainer")
    assert "nerfmac.training.step" in ours
    assert [name for name in ours if name.startswith("nerfmac.app")] == []
    assert len(ours) <= 108


def long_functions(root: Path) -> list[str]:
    found = []
    for folder in ("nerfmac", "scripts", "tests"):
        for path in sorted((root / folder).rglob("*.py")):
            for node in functions_of(path):
                lines = (node.end_lineno or 0) - node.lineno + 1 - _docstring_lines(node)
                if lines > LONGEST_FUNCTION:
                    found.append(f"{path.relative_to(root)}: {node.name}, {lines} lines")
    return found


def _code_lines(path: Path) -> int:
    text = path.read_text(encoding="utf-8")
    lines = len(text.splitlines())
    if path.suffix == ".py":
        lines -= sum(map(_docstring_lines, functions_of(path)))
    return lines


def _docstring_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    if ast.get_docstring(node) is None:
        return 0
    first = node.body[0]
    return (first.end_lineno or 0) - first.lineno + 1


def test_no_file_outgrows_one_sitting_and_no_function_one_screen():
    assert too_long(ROOT) == []
    assert long_functions(ROOT) == []


def sizes(package: Path) -> dict[str, int]:
    """Return the number of code lines of each package: lines that are neither empty nor comments
    nor docstrings."""
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    found: dict[str, int] = {}
    for path in sorted(package.rglob("*.py")):
        text, own = path.read_text(encoding="utf-8"), room(path, package)
        documented: set[int] = set()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, kinds) and ast.get_docstring(node) is not None:
                first = node.body[0]
                documented |= {*range(first.lineno, (first.end_lineno or 0) + 1)}
        lines = [
            number
            for number, line in enumerate(text.split("\n"), 1)
            if line.strip() and not line.strip().startswith("#") and number not in documented
        ]
        found[own] = found.get(own, 0) + len(lines)
    return found


def test_no_package_outgrows_its_ceiling():
    found = sizes(PACKAGE)
    assert found.keys() == CEILINGS.keys()
    above = {name: count for name, count in found.items() if count > CEILINGS[name]}
    assert above == {}, "delete code, or name what the feature replaces"


def test_the_tests_do_not_outgrow_their_ceiling():
    assert sum(sizes(ROOT / "tests").values()) <= MOST_TEST_LINES, "merge or delete tests"


def large_classes(folder: Path) -> list[str]:
    """Return the classes with more than `MOST_METHODS` methods. A property and its setter are one
    method."""
    found = []
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                functions = (ast.FunctionDef, ast.AsyncFunctionDef)
                names = {each.name for each in node.body if isinstance(each, functions)}
                if len(names) > MOST_METHODS:
                    found.append(f"{path.name}: {node.name}, {len(names)} methods")
    return found


@pytest.mark.parametrize("folder", ["app/viewer", "training"])
def test_no_class_of_the_viewer_or_of_the_training_has_many_methods(folder):
    assert large_classes(PACKAGE / folder) == []


PLANTED = [
    ("geometry.rays", "training.trainer", "geometry may not import training, which is above it"),
    ("geometry.rays", "app.run", "geometry may not import run, which is above it"),
    ("geometry.rays", "backend", "geometry may not import backend, which is beside it"),
    ("app.viewer.video", "app.video.frames", "only what stands in its __init__"),
    ("training.step", "app", "training may not import __init__, which is above it"),
    ("sky", "common", "sky: sky stands on no floor"),
    ("ops.march", "sky", "sky stands on no floor"),
]


@pytest.mark.parametrize(("importer", "imported", "fault"), PLANTED)
def test_a_planted_fault_is_found(importer, imported, fault):
    graph = grimp.ImportGraph()
    graph.add_import(importer=f"nerfmac.{importer}", imported=f"nerfmac.{imported}")
    assert fault in faults(graph)[0]


def test_a_circle_of_imports_is_found():
    graph = grimp.ImportGraph()
    graph.add_import(importer="nerfmac.ops.bits", imported="nerfmac.ops.march")
    graph.add_import(importer="nerfmac.ops.march", imported="nerfmac.ops.pack")
    assert circle(graph) == []
    graph.add_import(importer="nerfmac.ops.pack", imported="nerfmac.ops.bits")
    assert set(circle(graph)) == {"nerfmac.ops.bits", "nerfmac.ops.march", "nerfmac.ops.pack"}
