"""Parsing of command-line arguments to the dataclass of a command."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

from nerfmac.app.cli.declared import (
    Argument,
    NumberOrAuto,
    Switch,
    declared,
    flags_of,
    positionals_of,
)
from nerfmac.app.cli.synonyms import known_flag
from nerfmac.common.checks import InputError
from nerfmac.common.files import user_path
from nerfmac.rendering.crop import Box
from nerfmac.rendering.evaluation import BACKGROUNDS

Color = tuple[float, float, float]
Record = TypeVar("Record")

SWITCHED: dict[str, bool | None] = {"auto": None, "on": True, "off": False}


def checked(command: str, arguments: type, argv: Sequence[str]) -> list[str]:
    """Validate command-line words and normalize them for `parsed`. Returns options as
    `--name=value`, in the given order, followed by the positional arguments."""
    flags, positionals, joined = flags_of(arguments), [], []
    words = deque(argv)
    while words:
        word = words.popleft()
        if not word.startswith("-"):
            positionals.append(word)
            continue
        name, has_value, value = word.partition("=")
        name = name.replace("_", "-")
        if name not in flags:
            raise InputError(
                f"nerfmac {command} has no option {name}; {_instead(command, name, arguments)}"
            )
        kind = flags[name]
        if kind is bool:
            if has_value:
                raise InputError(
                    f"{name} does not accept a value, but got {value!r}; remove the value"
                )
            joined.append(name)
            continue
        if not has_value:
            if kind is Switch and (not words or words[0] not in SWITCHED):
                words.appendleft("on")
            if not words or words[0].startswith("--"):
                raise InputError(f"{name} has no value; expected {_expected(kind)}")
            value = words.popleft()
        _check_value(name, value, kind)
        if kind is Path:
            value = str(user_path(value))  # shells do not expand the ~ in --out=~/run
        joined.append(f"{name}={value}")
    _check_positionals(command, arguments, positionals)
    return [*joined, *positionals]


def parsed(arguments: type[Record], argv: Sequence[str], default: Record | None = None) -> Record:
    """Create `arguments` from words that `checked` returned. `default` has the other values."""
    given: dict[str, Any] = {}
    positionals = deque(positionals_of(arguments))
    kinds = flags_of(arguments)
    for word in argv:
        flag, _, value = word.partition("=")
        if not word.startswith("-"):
            positional = positionals.popleft()
            given[positional.name] = positional.kind(word)
        elif kinds[flag] is bool:
            is_negated = flag.startswith("--no-") and f"--{flag[5:]}" in kinds
            given[f"--{flag[5:]}" if is_negated else flag] = not is_negated
        else:
            given[flag] = _converted(value, kinds[flag])
    return _built(arguments, "--", given, default)


def _converted(value: str, kind: Any) -> Any:
    if kind is Switch:
        return SWITCHED[value]
    return value if get_origin(kind) is Literal else kind(value)


def _built(owner: Any, prefix: str, given: Mapping[str, Any], default: Any) -> Any:
    """Create an instance of the dataclass `owner` from the options that begin with `prefix`."""
    changes: dict[str, Any] = {}
    for field in fields(owner):
        name = field.name.rstrip("_").replace("_", "-")
        if any(flag.startswith(f"{prefix}{name}.") for flag in given):
            part = getattr(default if default is not None else owner(), field.name)
            changes[field.name] = _built(type(part), f"{prefix}{name}.", given, part)
        for key in (f"{prefix}{name}", *((name.upper(),) if prefix == "--" else ())):
            if key in given:
                changes[field.name] = given[key]
    return owner(**changes) if default is None else replace(default, **changes)


def numbers(flag: str, text: str, count: int, expected: str) -> list[float]:
    """Parse the value `text` of the option `flag` as `count` comma-separated numbers."""
    try:
        values = [float(word) for word in text.split(",")]
    except ValueError:
        values = []
    if len(values) != count:
        raise InputError(f"{flag} is {text!r}; expected {expected}")
    return values


def box(flag: str, text: str) -> Box:
    """Parse the lowest and the highest corner of a box, written as `X,Y,Z,X,Y,Z`."""
    expected = "six numbers X,Y,Z,X,Y,Z: the lowest and the highest corner"
    a, b, c, d, e, f = numbers(flag, text, 6, expected)
    return (a, b, c), (d, e, f)


def background(text: str, known: Sequence[str] = tuple(BACKGROUNDS)) -> Color:
    """Return the sRGB color in [0, 1] of a color name or of `R,G,B` with values from 0 to 255.
    Error messages list the `known` names."""
    if text in BACKGROUNDS:
        return BACKGROUNDS[text]
    expected = f"{', '.join(known)} or R,G,B such as 40,40,60"
    red, green, blue = numbers("--background", text, 3, expected)
    return red / 255.0, green / 255.0, blue / 255.0


def _instead(command: str, flag: str, arguments: type) -> str:
    """Suggest what to type instead of an unknown option."""
    texts = dict.fromkeys(flags_of(arguments), "")
    texts |= {argument.name: argument.text for argument in declared(arguments) if argument.is_flag}
    return known_flag(command, flag, texts, _usage(positionals_of(arguments)))


def _usage(positionals: Sequence[Argument]) -> str:
    return " ".join(argument.value.strip("[]") for argument in positionals)


def _check_value(name: str, value: str, kind: Any) -> None:
    fits = value in get_args(kind) if get_origin(kind) is Literal else _converts(value, kind)
    if not fits or not value:  # An empty path would mean the working directory.
        raise InputError(f"{name} is {value!r}; expected {_expected(kind)}")


def _converts(value: str, kind: Any) -> bool:
    try:
        kind(value)
    except ValueError:
        return False
    return True


def _expected(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return f"one of: {', '.join(get_args(kind))}"
    if isinstance(kind, NumberOrAuto):
        return f"{_expected(kind.number)}, or auto"
    number = {int: "an integer without a unit", float: "a number without a unit"}
    return number.get(kind, "a value")


def _check_positionals(command: str, arguments: type, values: Sequence[str]) -> None:
    names = positionals_of(arguments)
    if len(values) > len(names):
        limit = "at most one argument:" if len(names) == 1 else "only"
        expected = f"{limit} {_usage(names)}" if names else "options only"
        extra = values[len(names)]
        raise InputError(f"unexpected argument {extra!r}; nerfmac {command} accepts {expected}")
    required = [argument for argument in names if argument.default is MISSING]
    if len(values) < len(required):
        missing = required[len(values)].value
        raise InputError(f"{missing} is missing; type `nerfmac {command} {_usage(required)}`")
