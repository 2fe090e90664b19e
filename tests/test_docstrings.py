"""The docstrings of the public API name all arguments, the result, and the exceptions."""

import ast
import inspect
import pkgutil
import re
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import pytest

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


def test_the_reference_has_functions_methods_and_special_methods():
    assert len(CALLABLES) >= 120
    wanted = {"nerfmac.train", "nerfmac.Run.render", "nerfmac.ops.march.march"}
    wanted |= {"nerfmac.Trainer.__init__", "nerfmac.EncodedField.__call__"}
    assert wanted - {*CALLABLES} == set()


@pytest.mark.parametrize("name", CALLABLES)
def test_a_public_callable_documents_its_arguments_result_and_exceptions(name):
    assert faults(CALLABLES[name], docstring(name)) == []


def test_what_is_missing_in_a_docstring_is_found():
    def half(number: float, *, exact: bool) -> float:
        if not exact:
            raise ValueError(number)
        return number / 2

    part = "Halve.\n\nArgs:\n    number: A number, exact:\n        exact: Or not."
    assert faults(half, part) == ["exact", "Returns", "Raises"]
    complete = "Halve.\n\nArgs:\n    number, exact: A.\n\nReturns:\n    B.\n\nRaises:\n    C."
    assert faults(half, complete) == []
