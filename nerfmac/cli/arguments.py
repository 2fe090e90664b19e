"""Arguments of a command: one-line errors for the common mistakes, before tyro reads them.

tyro reads the arguments and prints the help, but reports a mistake in a box of many lines.
"""

from __future__ import annotations

import io
import logging
import sys
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import MISSING, dataclass, fields, is_dataclass
from difflib import get_close_matches
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import tyro
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from nerfmac.common.checks import InputError
from nerfmac.common.files import user_path
from nerfmac.config.record import RENAMED
from nerfmac.rendering.crop import Box
from nerfmac.rendering.evaluation import BACKGROUNDS

Colour = tuple[float, float, float]

HELP = ("-h", "--help")

RENAMED_FLAGS = {
    f"--{old}".replace("_", "-"): f"--{new}".replace("_", "-") for old, new in RENAMED.items()
}
"""New name of each flag that this version renamed, by its old name, as in {"--old": "--new"}."""

Switch = Literal["auto", "on", "off"]
"""Values of a flag whose setting is None, True or False; the flag alone means "on"."""
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


@dataclass(frozen=True)
class Takes:
    """Description of the flags and positional arguments that a command takes."""

    flags: dict[str, Any]
    """Type of each flag's value; bool for a flag without a value."""
    positionals: tuple[str, ...] = ()
    """Names of the positional arguments, in capitals, in order."""
    required: int = 0
    """Number of positional arguments that have no default."""
    is_endless: bool = False
    """Whether the last positional argument takes any number of words."""

    @classmethod
    def of(cls, arguments: type) -> Takes:
        """The flags and positional arguments of the dataclass `arguments`.

        A trailing underscore of a field's name is not part of its flag.
        """
        flags: dict[str, Any] = {}
        positionals, required, is_endless = [], 0, False
        hints = get_type_hints(arguments, include_extras=True)
        for argument in fields(arguments):
            hint = hints[argument.name]
            kind, *marks = get_args(hint) if get_origin(hint) is Annotated else (hint,)
            flag = f"--{argument.name.rstrip('_').replace('_', '-')}"
            if tyro.conf.Positional in marks:
                positionals.append(argument.name.upper())
                required += argument.default is MISSING
                is_endless = get_origin(kind) is tuple
            elif is_dataclass(kind) and isinstance(kind, type):
                inner = cls.of(kind).flags
                flags |= {f"{flag}.{name.removeprefix('--')}": inner[name] for name in inner}
            else:
                flags[flag] = Switch if kind == bool | None else _without_none(kind)
                if kind is bool:
                    flags[f"--no-{flag.removeprefix('--')}"] = bool
        return cls(flags, tuple(positionals), required, is_endless)


def checked(command: str, arguments: type, argv: Sequence[str]) -> list[str]:
    """`argv` checked and written for tyro: --flag=VALUE, renamed flags under their new names.

    tyro would take a separate value that begins with a minus for a flag. `arguments` is the
    command's dataclass. Raises `InputError` for an unknown flag, and for a value that is missing,
    wrong or superfluous.
    """
    if any(word in HELP for word in argv):
        return list(argv)
    takes, positionals, joined = Takes.of(arguments), [], []
    words = deque(argv)
    while words:
        word = words.popleft()
        if not word.startswith("-"):
            positionals.append(word)
            continue
        name, has_value, value = word.partition("=")
        name = _current(name.replace("_", "-"), takes.flags)
        if name not in takes.flags:
            expected = f"`nerfmac {command} --help` lists its flags"
            raise InputError(
                f"nerfmac {command} has no flag {name}; {meant(name, takes.flags, expected)}"
            )
        kind = takes.flags[name]
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
    _check_positionals(command, takes, positionals)
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


def meant(word: str, known: Sequence[str] | dict[str, Any], otherwise: str) -> str:
    """Question that suggests the `known` word most similar to `word`.

    `otherwise` if none is similar.
    """
    near = get_close_matches(word, list(known), n=1)
    return f"did you mean {near[0]}?" if near else otherwise


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


def _without_none(kind: Any) -> Any:
    kinds = [option for option in get_args(kind) if option is not NoneType]
    return kinds[0] if NoneType in get_args(kind) else kind


def _current(flag: str, flags: Collection[str]) -> str:
    """The new name of a renamed `flag`, with a warning; other flags unchanged.

    `flags` are those of the command.
    """
    new = RENAMED_FLAGS.get(flag, "")
    if flag in flags or new not in flags:
        return flag
    log.warning("%s is now %s; the next version no longer accepts %s", flag, new, flag)
    return new


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
    return {int: "an integer", float: "a number"}.get(kind, "a value")


def _check_positionals(command: str, takes: Takes, values: Sequence[str]) -> None:
    names = takes.positionals
    if len(values) > len(names) and not takes.is_endless:
        some = f"at most one {names[0]}" if len(names) == 1 else f"only {' and '.join(names)}"
        expected = some if names else "flags only"
        raise InputError(f"{values[len(names)]!r} is too much; nerfmac {command} takes {expected}")
    if len(values) < takes.required:
        usage = " ".join(names[: takes.required])
        raise InputError(f"{names[len(values)]} is missing; expected nerfmac {command} {usage}")
