"""Arguments that a command declares as the fields of its dataclass, and their help texts."""

import ast
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from nerfmac.config.settings import Written

UNPREFIXED = "unprefixed"
"""Metadata key of a field with a dataclass whose options have no prefix, such as --seed. A field of
the outer dataclass replaces an option with the same name."""
POSITIONAL = object()  # Marker of a positional argument in the annotation of its field.

Switch = Literal["auto", "on", "off"]
"""Type of an option for a setting that is None ("auto"), True ("on"), or False ("off"). If the
option is given without a value, it means "on"."""


@dataclass(frozen=True)
class NumberOrAuto:
    """Type of an option for a setting that is a number or None. The word "auto" means None."""

    number: type

    def __call__(self, text: str) -> Any:
        """Convert `text`, or raise `ValueError`."""
        return None if text == "auto" else self.number(text)


@dataclass(frozen=True)
class Argument:
    """Option or positional argument."""

    name: str  # Option, such as "--grid.levels", or positional argument, such as "SCENE".
    kind: Any  # Type of the value. For an option without a value, the type is bool.
    value: str  # Name in a help page, such as "FOLDER"; empty for a bool.
    default: Any  # Default value; `MISSING` for a required argument.
    owner: type  # Dataclass that declares the field.
    parse: Callable[[str], Any] | None = None  # Converts the text to the value.

    @property
    def is_flag(self) -> bool:
        """Whether this is an option and not a positional argument."""
        return self.name.startswith("-")

    @property
    def field_name(self) -> str:
        """Name of the field, with hyphens."""
        return self.name.rpartition(".")[2].removeprefix("--").lower()

    @property
    def text(self) -> str:
        """Documentation of the field, in one line."""
        return documentation(self.owner)[self.field_name]


@cache
def declared(arguments: type) -> Sequence[Argument]:
    """Return the arguments of a dataclass: its fields, then inherited fields, then the fields of
    nested dataclasses, such as `--grid.levels`. Names lose a trailing underscore."""
    names = {name.rstrip("_").replace("_", "-") for name in inspect.get_annotations(arguments)}

    def order(argument: Argument) -> tuple[bool, bool]:
        return "." in argument.name, argument.is_flag and argument.field_name not in names

    return sorted(_declared(arguments), key=order)


def positionals_of(arguments: type) -> list[Argument]:
    """Return the positional arguments of a dataclass, in order."""
    return [argument for argument in declared(arguments) if not argument.is_flag]


def _declared(owner: type, *, is_part: bool = False) -> Iterator[Argument]:
    hints = get_type_hints(owner, include_extras=True)
    for field in fields(owner):
        hint = hints[field.name]
        kind, *marks = get_args(hint) if get_origin(hint) is Annotated else (hint,)
        name = field.name.rstrip("_").replace("_", "-")
        if is_dataclass(kind) and isinstance(kind, type):
            prefix = "" if UNPREFIXED in field.metadata else f"{name}."
            for inner in _declared(kind, is_part=True):
                bare = inner.name.removeprefix("--")
                if prefix or bare not in hints:
                    yield replace(inner, name=f"--{prefix}{bare}")
            continue
        if kind == bool | None:
            kind = Switch
        elif is_part and NoneType in get_args(kind):  # a setting that is chosen if it is None
            kind = NumberOrAuto(_without_none(kind))
        else:
            kind = _without_none(kind)
        name = name.upper() if POSITIONAL in marks else f"--{name}"
        written = next((mark for mark in marks if isinstance(mark, Written)), None)
        value = _value_name(kind) if name.startswith("-") else name
        if written is None:
            yield Argument(name, kind, value, field.default, owner)
        else:
            kind = str if written.parse else kind
            yield Argument(name, kind, written.name, field.default, owner, written.parse)


@cache
def documentation(owner: type) -> dict[str, str]:
    """Return the documentation of each field: the string below it, or the comment in its line. Keys
    are field names with hyphens, as in options. Each text is one line."""
    texts = {}
    for base in filter(is_dataclass, reversed(owner.__mro__)):
        source = Path(inspect.getfile(base)).read_text(encoding="utf-8")
        classes = (node for node in ast.parse(source).body if isinstance(node, ast.ClassDef))
        definition = next(node for node in classes if node.name == base.__name__)
        for node, below in pairwise([*definition.body, ast.Pass()]):
            if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
                continue
            text = source.splitlines()[node.lineno - 1].partition("  # ")[2]
            if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
                text = str(below.value.value)
            name = node.target.id.rstrip("_").replace("_", "-")
            texts[name] = " ".join(text.split())
    return texts


def _without_none(kind: Any) -> Any:
    kinds = [option for option in get_args(kind) if option is not NoneType]
    return kinds[0] if NoneType in get_args(kind) else kind


def _value_name(kind: Any) -> str:
    if isinstance(kind, NumberOrAuto):
        return f"{_value_name(kind.number)}|auto"
    if get_origin(kind) is Literal:
        return "|".join(get_args(kind))
    return "" if kind is bool else kind.__name__.upper()
