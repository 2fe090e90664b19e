"""The arguments of a verb, and one-line errors for wrong ones.

tyro reads the arguments and prints the help. It reports a mistake in a box of many lines. So the
common mistakes are found here first, and reported like every other `InputError`.
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

from nerfmac.common.checks import InputError
from nerfmac.common.files import user_path
from nerfmac.config.record import RENAMED
from nerfmac.rendering.crop import Box

HELP = ("-h", "--help")

RENAMED_FLAGS = {
    f"--{old}".replace("_", "-"): f"--{new}".replace("_", "-") for old, new in RENAMED.items()
}
"""New name of each flag that this version renamed, by its old name, as in {"--old": "--new"}."""

log = logging.getLogger("nerfmac")


@dataclass(frozen=True)
class Takes:
    """The arguments that a verb takes, by its dataclass."""

    flags: dict[str, Any]
    """The type of each flag's value; bool for a flag without one."""
    positionals: tuple[str, ...] = ()
    """The names of the arguments that are no flags, in capitals, in their order."""
    required: int = 0
    """How many of those must be given."""

    @classmethod
    def of(cls, arguments: type) -> Takes:
        """The flags and the positional arguments of the dataclass `arguments`.

        A field whose name would be a word of Python ends in an underscore, which its flag does not.
        """
        flags: dict[str, Any] = {}
        positionals, required = [], 0
        hints = get_type_hints(arguments, include_extras=True)
        for each in fields(arguments):
            hint = hints[each.name]
            kind, *marks = get_args(hint) if get_origin(hint) is Annotated else (hint,)
            flag = f"--{each.name.rstrip('_').replace('_', '-')}"
            if tyro.conf.Positional in marks:
                positionals.append(each.name.upper())
                required += each.default is MISSING
            elif is_dataclass(kind) and isinstance(kind, type):
                inner = cls.of(kind).flags
                flags |= {f"{flag}.{name.removeprefix('--')}": inner[name] for name in inner}
            else:
                flags[flag] = _present(kind)
                if kind is bool:
                    flags[f"--no-{flag.removeprefix('--')}"] = bool
        return cls(flags, tuple(positionals), required)


def checked(verb: str, arguments: type, argv: Sequence[str]) -> list[str]:
    """`argv`, with each flag's value joined to it, for a verb that takes these `arguments`.

    A value may begin with a minus, and tyro then wants it joined. Raises `InputError` where `argv`
    is not what the verb takes.
    """
    if any(word in HELP for word in argv):
        return list(argv)
    takes, others, joined = Takes.of(arguments), [], []
    words = deque(argv)
    while words:
        word = words.popleft()
        if not word.startswith("-"):
            others.append(word)
            joined.append(word)
            continue
        name, has_value, value = word.partition("=")
        name = _current(name.replace("_", "-"), takes.flags)
        if name not in takes.flags:
            expected = f"`nerfmac {verb} --help` lists its flags"
            raise InputError(
                f"nerfmac {verb} has no flag {name}; {meant(name, takes.flags, expected)}"
            )
        kind = takes.flags[name]
        if kind is bool:
            if has_value:
                raise InputError(f"{name} is {value!r}; expected the flag alone, without a value")
            joined.append(name)
            continue
        if not has_value:
            if not words or words[0].startswith("--"):
                raise InputError(f"{name} has no value; expected {_expected(kind)}")
            value = words.popleft()
        _check_value(name, value, kind)
        if kind is Path:
            value = str(user_path(value))  # shells leave --out=~/run as it is
        joined.append(f"{name}={value}")
    _check_positional(verb, takes, others)
    return joined


@contextmanager
def unboxed() -> Iterator[None]:
    """Raise an `InputError` that tyro caught; tyro itself would print it in a box and exit.

    A dataclass that refuses its numbers raises the error while tyro makes it.
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
    """A question after the `known` word that is nearest to `word`; `otherwise` if none is near."""
    near = get_close_matches(word, list(known), n=1)
    return f"did you mean {near[0]}?" if near else otherwise


def optional(metavar: str) -> Any:
    """Describe, in the help, a flag that may be left out and then is None."""
    return tyro.conf.arg(metavar=metavar, help_behavior_hint="")


def numbers(flag: str, text: str, count: int, expected: str) -> list[float]:
    """The `count` numbers in `text`, which has commas between them. Raises `InputError`."""
    try:
        found = [float(word) for word in text.split(",")]
    except ValueError:
        found = []
    if len(found) != count:
        raise InputError(f"{flag} is {text!r}; expected {expected}")
    return found


def box(flag: str, text: str) -> Box:
    """The lowest and the highest corner in `text`. Raises `InputError` if it is not six numbers."""
    expected = "six numbers X,Y,Z,X,Y,Z, the lowest and highest corner"
    a, b, c, d, e, f = numbers(flag, text, 6, expected)
    return (a, b, c), (d, e, f)


def _present(kind: Any) -> Any:
    """`kind` without None."""
    some = [each for each in get_args(kind) if each is not NoneType]
    return some[0] if NoneType in get_args(kind) else kind


def _current(flag: str, flags: Collection[str]) -> str:
    """The new name of a renamed `flag`, with a warning; else `flag`. `flags`: the command's."""
    new = RENAMED_FLAGS.get(flag, "")
    if flag in flags or new not in flags:
        return flag
    log.warning("%s is now %s; the next version no longer accepts %s", flag, new, flag)
    return new


def _check_value(name: str, value: str, kind: Any) -> None:
    fits = value in get_args(kind) if get_origin(kind) is Literal else _converts(value, kind)
    fits = fits and bool(value)  # an empty path would be the working folder
    if not fits:
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


def _check_positional(verb: str, takes: Takes, given: Sequence[str]) -> None:
    names = takes.positionals
    if len(given) > len(names):
        one = f"at most one {names[0]}" if len(names) == 1 else f"only {' and '.join(names)}"
        expected = one if names else "flags only"
        raise InputError(f"{given[len(names)]!r} is too much; nerfmac {verb} takes {expected}")
    if len(given) < takes.required:
        usage = " ".join(names[: takes.required])
        raise InputError(f"{names[len(given)]} is missing; expected nerfmac {verb} {usage}")
