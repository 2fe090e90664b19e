"""Arguments of a command: one-line errors for the common mistakes, before tyro reads them.

tyro reads the arguments, but reports a mistake in a box of many lines.
"""

from __future__ import annotations

import io
import logging
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import MISSING
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import tyro
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from nerfmac.app.cli.declared import Argument, Switch, declared, flags_of, positionals_of
from nerfmac.app.cli.synonyms import known_flag
from nerfmac.common.checks import InputError
from nerfmac.common.files import user_path
from nerfmac.rendering.crop import Box
from nerfmac.rendering.evaluation import BACKGROUNDS

Colour = tuple[float, float, float]

SWITCHED: dict[str, bool | None] = {"auto": None, "on": True, "off": False}

SWITCHES = ConstructorRegistry()
"""Rules by which tyro reads settings of the type `bool | None`."""

log = logging.getLogger("nerfmac")


@SWITCHES.primitive_rule
def _switch(setting: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[bool | None] | None:
    if setting.type != bool | None:
        return None
    words = {value: word for word, value in SWITCHED.items()}
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="|".join(SWITCHED),
        instance_from_str=lambda values: SWITCHED[values[0]],
        is_instance=lambda value: value in words,
        str_from_instance=lambda value: [words[value]],
    )


def checked(command: str, arguments: type, argv: Sequence[str]) -> list[str]:
    """`argv` checked and written for tyro: --flag=VALUE.

    tyro would take a separate value that begins with a minus for a flag. `arguments` is the
    command's dataclass. Raises `InputError` for an unknown flag, and for a value that is missing,
    wrong or superfluous.
    """
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
                f"nerfmac {command} has no flag {name}; {_instead(command, name, arguments)}"
            )
        kind = flags[name]
        if kind is bool:
            if has_value:
                raise InputError(f"{name} is {value!r}; expected the flag alone, without a value")
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


@contextmanager
def unboxed() -> Iterator[None]:
    """Context manager that raises the `InputError` with which a dataclass refuses tyro's values.

    tyro itself catches that error, prints it in a box and exits.
    """
    box = io.StringIO()
    try:
        with redirect_stderr(box):
            yield
    except SystemExit as end:
        error: BaseException | None = end
        while error is not None and not isinstance(error, InputError):
            error = error.__context__
        if error is not None:
            raise error from None
        sys.stderr.write(box.getvalue())
        raise


def optional(metavar: str) -> Any:
    """tyro's mark of a flag whose default is None; the help shows `metavar` alone."""
    return tyro.conf.arg(metavar=metavar, help_behavior_hint="")


def numbers(flag: str, text: str, count: int, expected: str) -> list[float]:
    """The `count` numbers in `text`, separated by commas. Raises `InputError`."""
    try:
        values = [float(word) for word in text.split(",")]
    except ValueError:
        values = []
    if len(values) != count:
        raise InputError(f"{flag} is {text!r}; expected {expected}")
    return values


def box(flag: str, text: str) -> Box:
    """The box in `text`, X,Y,Z of its lowest and of its highest corner. Raises `InputError`."""
    expected = "six numbers X,Y,Z,X,Y,Z, the lowest and highest corner"
    a, b, c, d, e, f = numbers(flag, text, 6, expected)
    return (a, b, c), (d, e, f)


def background(text: str, known: Sequence[str] = tuple(BACKGROUNDS)) -> Colour:
    """The sRGB colour in [0, 1] that `text` names or has as R,G,B up to 255. Raises `InputError`.

    The error lists the `known` names.
    """
    if text in BACKGROUNDS:
        return BACKGROUNDS[text]
    expected = f"{', '.join(known)} or R,G,B such as 40,40,60"
    red, green, blue = numbers("--background", text, 3, expected)
    return red / 255.0, green / 255.0, blue / 255.0


def _instead(command: str, flag: str, arguments: type) -> str:
    """What to type in place of an unknown flag."""
    texts = dict.fromkeys(flags_of(arguments), "")
    texts |= {argument.name: argument.text for argument in declared(arguments) if argument.is_flag}
    return known_flag(command, flag, texts, _usage(positionals_of(arguments)))


def _usage(positionals: Sequence[Argument]) -> str:
    return " ".join(argument.value.strip("[]") for argument in positionals)


def _check_value(name: str, value: str, kind: Any) -> None:
    fits = value in get_args(kind) if get_origin(kind) is Literal else _converts(value, kind)
    if not fits or not value:  # an empty path would be the working folder
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
    number = {int: "an integer, in digits alone", float: "a number, without a unit"}
    return number.get(kind, "a value")


def _check_positionals(command: str, arguments: type, values: Sequence[str]) -> None:
    names = positionals_of(arguments)
    is_endless = any(get_origin(argument.kind) is tuple for argument in names)
    if len(values) > len(names) and not is_endless:
        only = "at most one" if len(names) == 1 else "only"
        expected = f"{only} {_usage(names)}" if names else "flags only"
        raise InputError(f"{values[len(names)]!r} is too much; nerfmac {command} takes {expected}")
    required = [argument for argument in names if argument.default is MISSING]
    if len(values) < len(required):
        missing = required[len(values)].value
        raise InputError(f"{missing} is missing; type `nerfmac {command} {_usage(required)}`")
