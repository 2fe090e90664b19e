"""The docstrings of the public API name all arguments, the result, and the exceptions."""

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import nerfmac


def public_callables() -> Iterator[tuple[str, Callable[..., Any]]]:
    """The functions of `nerfmac` and the public methods of its classes, with their names."""
    for name in nerfmac.__all__:
        value = getattr(nerfmac, name)
        if inspect.isfunction(value):
            yield name, value
        elif inspect.isclass(value):
            for attribute, member in vars(value).items():
                function = getattr(member, "__func__", member)
                is_public = inspect.isfunction(function) and not attribute.startswith("_")
                if is_public and not overrides(value, attribute):
                    yield f"{name}.{attribute}", function


def overrides(cls: type, attribute: str) -> bool:
    """Whether a base class has the method too, so that its docstring describes the override."""
    return any(hasattr(base, attribute) for base in cls.__bases__)


CALLABLES = dict(public_callables())


def raises_itself(function: Callable[..., Any]) -> bool:
    """Whether the body has a `raise` that names an exception."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    return any(isinstance(node, ast.Raise) and node.exc for node in ast.walk(tree))


@pytest.mark.parametrize("name", CALLABLES)
def test_a_public_callable_documents_its_arguments_result_and_exceptions(name):
    function = CALLABLES[name]
    text, signature = inspect.getdoc(function) or "", inspect.signature(function)
    parameters = [each for each in signature.parameters if each not in ("self", "cls")]
    sections = re.split(r"^(Args|Returns|Yields|Raises|Examples):$", text, flags=re.M)
    has = dict(zip(sections[1::2], sections[2::2], strict=True))
    missing = [each for each in parameters if not re.search(rf"\b{each}\b", has.get("Args", ""))]
    assert not missing, f"Args of {name} does not name {missing}"
    if signature.return_annotation not in (None, "None", "NoReturn", inspect.Signature.empty):
        assert {"Returns", "Yields"} & set(has), f"{name} has no Returns"
    if raises_itself(function):
        assert "Raises" in has, f"{name} has no Raises"
