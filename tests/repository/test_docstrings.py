"""Docstrings of the public API are complete, and `mypy --strict` accepts scripts that use it."""

import ast
import inspect
import pkgutil
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import nerfmac
from tests.conftest import ROOT

SPECIAL = ("__init__", "__call__")
"""Special methods that the site shows."""


def documented() -> Iterator[tuple[str, Any]]:
    """The functions and classes in the reference, with their full names."""
    for page in sorted((ROOT / "docs").glob("python*.md")):
        text = page.read_text(encoding="utf-8")
        for name in re.findall(r"^::: (nerfmac\.[\w.]+)$", text, re.MULTILINE):
            yield name, pkgutil.resolve_name(name)


def public_callables() -> Iterator[tuple[str, Callable[..., Any]]]:
    """The functions in the reference, and the public methods of its classes, with their names."""
    for name, value in documented():
        if inspect.isfunction(value):
            yield name, value
        elif inspect.isclass(value):
            for attribute, member in vars(value).items():
                function = getattr(member, "__func__", member)
                is_public = attribute in SPECIAL or not attribute.startswith("_")
                if inspect.isfunction(function) and is_public and not is_generated(function):
                    yield f"{name}.{attribute}", function


def is_generated(function: Callable[..., Any]) -> bool:
    """Whether the function has no source code, such as the `__init__` of a dataclass."""
    return function.__code__.co_filename == "<string>"


CALLABLES = dict(public_callables())


def docstring(name: str) -> str:
    """The docstring of a callable. For `__init__`, it continues the docstring of the class."""
    text = inspect.getdoc(CALLABLES[name]) or ""
    if not name.endswith(".__init__"):
        return text
    cls = pkgutil.resolve_name(name.removesuffix(".__init__"))
    return f"{inspect.getdoc(cls)}\n\n{text}"


def raises_itself(function: Callable[..., Any]) -> bool:
    """Whether the body has a `raise` that names an exception."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    return any(isinstance(node, ast.Raise) and node.exc for node in ast.walk(tree))


def faults(function: Callable[..., Any], text: str) -> list[str]:
    """Return the sections and arguments that the docstring `text` of a function lacks."""
    signature = inspect.signature(function)
    parameters = [each for each in signature.parameters if each not in ("self", "cls")]
    sections = re.split(r"^(Args|Returns|Yields|Raises|Examples):$", text, flags=re.M)
    has = dict(zip(sections[1::2], sections[2::2], strict=True))
    entries = re.findall(r"^ {4}(\w[\w, ]*):", has.get("Args", ""), re.MULTILINE)
    missing = [each for each in parameters if each not in re.findall(r"\w+", " ".join(entries))]
    returned = signature.return_annotation
    if returned not in (None, "None", "NoReturn", inspect.Signature.empty):
        missing += [] if {"Returns", "Yields"} & set(has) else ["Returns"]
    if raises_itself(function) and "Raises" not in has:
        missing.append("Raises")
    return missing


@pytest.mark.parametrize("name", CALLABLES)
def test_a_public_callable_documents_its_arguments_result_and_exceptions(name):
    assert faults(CALLABLES[name], docstring(name)) == []


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
