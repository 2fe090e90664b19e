"""The package's structure: its imports, and the sizes of its files, functions and signatures."""

import ast
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "nerfmac"
LONGEST = 400  # lines of a file, without the docstrings of its functions
LONGEST_FUNCTION = 60  # lines of a function, without its docstring
MOST_PARAMETERS = 7  # of a function, without self and cls
MOST_METHODS = 15  # Maximum number of methods of a class of the viewer and of training.
CEILINGS = {
    "version": 40,
    "common": 760,
    "config": 823,
    "backend": 1468,
    "geometry": 894,
    "ranks": 220,
    "ops": 1979,
    "fields": 384,
    "sampling": 376,
    "rendering": 778,
    "refine": 371,
    "training": 1302,
    "scenes": 3792,
    "paths": 788,
    "datasets": 249,
    "capture": 2555,
    "inspection": 792,
    "run": 1484,
    "snapshots": 418,
    "video": 700,
    "export": 1293,
    "viewer": 2226,
    "measure": 1459,
    "cli": 1606,
    "__init__": 19,
    "__main__": 3,
    "public": 84,
}
"""Maximum number of code lines of each package, without docstrings and comments. A change that
makes a package smaller lowers its ceiling, and a feature deletes what it replaces."""
MOST_TEST_LINES = 29_380
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
def nodes(source: str) -> list[ast.AST]:
    """Return the imports, dynamic ones too, and functions anywhere in a file's source code."""
    wanted = ast.Import | ast.ImportFrom | ast.FunctionDef | ast.AsyncFunctionDef
    found = map(_as_import, ast.walk(ast.parse(source)))
    return [node for node in found if isinstance(node, wanted)]


def _as_import(node: ast.AST) -> ast.AST:
    """The import that a call of `import_module` makes; an f-string counts by its beginning."""
    if not isinstance(node, ast.Call) or not node.args:
        return node
    function, name = node.func, node.args[0]
    called = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    if isinstance(name, ast.JoinedStr) and name.values:
        name = name.values[0]
    if called not in ("import_module", "__import__") or not isinstance(name, ast.Constant):
        return node
    return ast.Import([ast.alias(str(name.value))], lineno=node.lineno)


def imports(source: str, package: Path) -> Iterator[tuple[int, str, bool]]:
    """Yield line and package of each import from nerfmac, and whether it bypasses `__init__`.

    Imports inside functions count. A relative import yields the package ".". `from nerfmac import
    x` is the module x if it exists, otherwise a public name, so the package itself.
    """
    above = package.name, f"{package.name}.app"
    for node in nodes(source):
        if isinstance(node, ast.ImportFrom) and node.level:
            yield node.lineno, ".", False
        elif isinstance(node, ast.ImportFrom) and node.module in above:
            folder = package.parent / node.module.replace(".", "/")
            for alias in node.names:
                is_module = alias.name in FLOOR or _is_module(folder / alias.name)
                yield node.lineno, alias.name if is_module else "__init__", False
        else:
            named = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            named += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for name in named:
                top, *inner = name.split(".")
                if top == package.name:
                    depth = 2 if inner[:1] == ["app"] else 1
                    yield node.lineno, _room(inner), len(inner) > depth


def _is_module(path: Path) -> bool:
    return path.is_dir() or path.with_suffix(".py").is_file()


def faults(package: Path) -> list[str]:
    found = []
    for path in sorted(package.rglob("*.py")):
        own, place = room(path, package), path.relative_to(package)
        if own not in FLOOR:
            found.append(f"{place}: {own} stands on no floor")
            continue
        for line, used, reaches_in in imports(path.read_text(encoding="utf-8"), package):
            if fault := _fault(own, used, reaches_in):
                found.append(f"{place}:{line}: {fault}")
    return found


def _fault(own: str, used: str, reaches_in: bool) -> str | None:
    """Return why package `own` may not import `used`, or None if it may."""
    if used == ".":
        return "a relative import"
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


def circle(package: Path) -> list[str]:
    """Return modules of `package` that import each other in a circle; empty if there is none."""
    paths = {_module_name(path, package): path for path in package.rglob("*.py")}
    graph = {name: _imported_modules(path, set(paths)) for name, path in paths.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def _module_name(path: Path, package: Path) -> str:
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def _imported_modules(path: Path, modules: set[str]) -> set[str]:
    """Which of `modules` a file imports; from a package's `__init__`, the package."""
    found = set()
    for node in nodes(path.read_text(encoding="utf-8")):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            named = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in modules else node.module for name in named}
    return found & modules


def too_long(root: Path) -> list[str]:
    kinds = {".py", ".metal", ".h", ".cpp", ".js", ".css"}
    folders = [root / name for name in ("nerfmac", "kernels", "scripts", "tests")]
    paths = [path for folder in folders for path in sorted(folder.rglob("*"))]
    counts = {p: _code_lines(p) for p in paths if p.suffix in kinds}
    return [
        f"{p.relative_to(root)}: {count} lines" for p, count in counts.items() if count > LONGEST
    ]


def test_imports_point_down_and_never_in_a_circle():
    assert any(PACKAGE.rglob("*.py")), "nothing was looked at"
    assert faults(PACKAGE) == []
    assert circle(PACKAGE) == []


def loaded_by(module: str) -> list[str]:
    code = f"import sys, {module}; print(*sys.modules)"
    command = [sys.executable, "-c", code]
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
            for node in nodes(path.read_text(encoding="utf-8")):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    lines = (node.end_lineno or 0) - node.lineno + 1 - _docstring_lines(node)
                    if lines > LONGEST_FUNCTION:
                        found.append(f"{path.relative_to(root)}: {node.name}, {lines} lines")
    return found


def _code_lines(path: Path) -> int:
    text = path.read_text(encoding="utf-8")
    lines = len(text.splitlines())
    if path.suffix == ".py":
        functions = (ast.FunctionDef, ast.AsyncFunctionDef)
        lines -= sum(_docstring_lines(node) for node in nodes(text) if isinstance(node, functions))
    return lines


def _docstring_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    if ast.get_docstring(node) is None:
        return 0
    first = node.body[0]
    return (first.end_lineno or 0) - first.lineno + 1


def test_no_file_outgrows_one_sitting_and_no_function_one_screen():
    assert too_long(ROOT) == []
    assert long_functions(ROOT) == []
    assert overloaded(PACKAGE) == []


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


def overloaded(package: Path) -> list[str]:
    found = []
    for path in sorted(package.rglob("*.py")):
        for node in nodes(path.read_text(encoding="utf-8")):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                named = node.args
                parameters = [*named.posonlyargs, *named.args, *named.kwonlyargs]
                count = len([each for each in parameters if each.arg not in ("self", "cls")])
                if count > MOST_PARAMETERS:
                    found.append(f"{path.relative_to(package)}: {node.name}")
    return found


PLANTED = [
    ("geometry/rays.py", "from nerfmac.training.trainer import fit", "rays.py:1: geometry may not"),
    ("geometry/rays.py", "from nerfmac import training", "geometry may not import training"),
    ("geometry/rays.py", "def f():\n    import nerfmac.app.run", "rays.py:2: geometry may"),
    ("geometry/rays.py", "from nerfmac.backend import Kernel", "backend, which is beside it"),
    ("ops/march.py", "from . import hash", "ops/march.py:1: a relative import"),
    ("app/viewer/video.py", "from nerfmac.app.video.frames import F", "stands in its __init__"),
    ("app/run/start.py", 'import_module("nerfmac.app.cli.view").main()', "start.py:1: run may"),
    ("app/run/start.py", 'def f():\n    __import__("nerfmac.app.cli")', "start.py:2: run may"),
    ("app/run/start.py", 'import_module(f"nerfmac.app.cli.{name}")', "run may not import cli"),
    ("training/step.py", "import nerfmac.app", "training may not import __init__, which is above"),
    ("sky.py", "", "sky.py: sky stands on no floor"),
]


@pytest.mark.parametrize(("name", "source", "fault"), PLANTED)
def test_a_planted_fault_is_found(tmp_path, name, source, fault):
    planted = tmp_path / "nerfmac" / name
    planted.parent.mkdir(parents=True)
    planted.write_text(source)
    (found,) = faults(tmp_path / "nerfmac")
    assert fault in found


@pytest.mark.parametrize(
    "closing",
    [
        "from nerfmac.ops.march import march",
        "from nerfmac.ops import march",
        "import nerfmac.ops.march",
        "if TYPE_CHECKING:\n    from nerfmac.ops.march import March",
        'def late():\n    import_module("nerfmac.ops.march").march()',
    ],
)
def test_a_circle_of_imports_is_found(tmp_path, closing):
    ops = tmp_path / "nerfmac" / "ops"
    ops.mkdir(parents=True)
    (ops / "march.py").write_text("from nerfmac.ops import COUNT, pack")
    (ops / "__init__.py").write_text("")
    (ops / "pack.py").write_text("from nerfmac.ops.bits import bits\nfrom nerfmac.ops import COUNT")
    (ops / "bits.py").write_text("import numpy")
    assert circle(tmp_path / "nerfmac") == []
    (ops / "bits.py").write_text(closing)
    names = ["nerfmac.ops.bits", "nerfmac.ops.march", "nerfmac.ops.pack"]
    assert sorted(set(circle(tmp_path / "nerfmac"))) == names
