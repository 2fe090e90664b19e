"""Parsing of command-line arguments with `argparse`, according to the dataclass of a command. This
module does not import MLX."""

from __future__ import annotations

import re
from argparse import SUPPRESS, ArgumentParser, ArgumentTypeError, BooleanOptionalAction
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import MISSING, fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeVar, cast, get_args, get_origin

from nerfmac.app.cli.declared import UNPREFIXED, Argument, NumberOrAuto, Switch, declared
from nerfmac.common import InputError, user_path

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Record = TypeVar("Record", bound="DataclassInstance")

LOG_FILE = "--log-file"  # Option of every command.
SWITCHED: dict[str, bool | None] = {"auto": None, "on": True, "off": False}
SYNONYMS = {
    **dict.fromkeys(("--learning-rate", "--learning_rate", "--lr"), "--optimizer.rate"),
    **dict.fromkeys(("--iterations", "--iters", "--n-steps", "--n_steps", "--epochs"), "--steps"),
    **dict.fromkeys(("--max-num-iterations", "--max_steps", "--max-steps"), "--steps"),
    **dict.fromkeys(("--gpu", "--cuda", "--cpu", "-d"), "--device"),
    **dict.fromkeys(("-o", "--output", "--output-dir", "--out-dir", "-m"), "--out"),
    **dict.fromkeys(("--resolution", "-r", "--scale", "--downscale-factor"), "--downscale"),
    **dict.fromkeys(("--batch-size", "--batch_size", "--n-rays"), "--train.rays"),
    **dict.fromkeys(("--time", "--minutes"), "--seconds"),
}
"""Options of other programs, and the corresponding options of nerfmac."""
NEAREST = 0.75  # Minimum similarity, from 0 to 1, of a suggested word to the typed word.


class Parser(ArgumentParser):
    """Parser for the options of a command. Errors are raised as `InputError`."""

    def __init__(self) -> None:
        super().__init__(add_help=False, allow_abbrev=False, argument_default=SUPPRESS)
        # Values may start with a hyphen, such as `--up -y` and `--crop -1,-1,0,1,1,2`.
        self._negative_number_matcher = re.compile("^-[^-]")

    def error(self, message: str) -> NoReturn:
        """Raise `InputError`."""
        raise InputError(message.removeprefix("argument ").replace(": is ", " is ", 1))


def given_by(command: str, arguments: type, words: Sequence[str]) -> dict[str, Any]:
    """Return the values of the options and positional arguments in `words`, keyed by names such as
    `--grid.levels` and `SCENE`."""
    parser = Parser()
    parser.add_argument(LOG_FILE, dest=LOG_FILE, type=_converter(Path))
    flags = [argument for argument in declared(arguments) if argument.is_flag]
    for flag in flags:
        add_option(parser, flag)
    # Words after `--` are no options, so that a file name may begin with a hyphen.
    end = [*words, "--"].index("--")
    known, rest = parser.parse_known_args(words[:end])
    # All positional arguments are single words, and `argparse` returns these words unparsed.
    for word in rest:
        if word.startswith("-"):
            name = word.partition("=")[0]
            advice = _instead(command, name, [flag.name for flag in flags])
            raise InputError(f"nerfmac {command} has no option {name}; {advice}")
    rest += words[end + 1 :]
    names = [argument for argument in declared(arguments) if not argument.is_flag]
    usage = " ".join(argument.value.strip("[]") for argument in names)
    if len(rest) > len(names):
        accepted = f"only {usage}" if names else "options only"
        extra = rest[len(names)]
        raise InputError(f"unexpected argument {extra!r}; nerfmac {command} accepts {accepted}")
    for argument in names[len(rest) :]:
        if argument.default is MISSING:
            raise InputError(f"{argument.value} is missing; type `nerfmac {command} {usage}`")
    given = vars(known)
    for argument, word in zip(names, rest, strict=False):
        given[argument.name] = argument.kind(word)
    for flag in flags:  # After `argparse`, which would change the error messages.
        if flag.parse is not None and flag.name in given:
            given[flag.name] = flag.parse(given[flag.name])
    return given


def built(arguments: type[Record], given: Mapping[str, Any], default: Any = None) -> Record:
    """Create an instance of the dataclass `arguments` from the values that `given_by` returned.
    `default` has the other values. The attribute `typed` lists the names of the given values."""
    record = _built(arguments, "--", given, default)
    object.__setattr__(record, "typed", tuple(given))  # The dataclasses are frozen.
    return cast(Record, record)


def _built(owner: Any, prefix: str, given: Mapping[str, Any], default: Any) -> Any:
    changes: dict[str, Any] = {}
    names = {field.name for field in fields(owner)}
    for field in fields(owner):
        name = field.name.rstrip("_").replace("_", "-")
        if UNPREFIXED in field.metadata:
            others = {flag: given[flag] for flag in given if flag[len(prefix) :] not in names}
            changes[field.name] = _part(owner, field.name, prefix, others, default)
        elif any(flag.startswith(f"{prefix}{name}.") for flag in given):
            changes[field.name] = _part(owner, field.name, f"{prefix}{name}.", given, default)
        for key in (f"{prefix}{name}", *((name.upper(),) if prefix == "--" else ())):
            if key in given:
                changes[field.name] = given[key]
    return owner(**changes) if default is None else replace(default, **changes)


def _part(owner: Any, name: str, prefix: str, given: Mapping[str, Any], default: Any) -> Any:
    part = getattr(default if default is not None else owner(), name)
    return _built(type(part), prefix, given, part)


def part_of(arguments: Any, part: type[Record], **changes: Any) -> Record:
    """Return the fields of the dataclass `part` of an instance of one of its subclasses, with some
    changes."""
    values = {field.name: getattr(arguments, field.name) for field in fields(part)}
    return part(**values | changes)


def add_option(group: Any, argument: Argument, text: str = "", *, negated: bool = True) -> None:
    """Add an option with a help text to an `argparse` parser or group. An option without a value
    also has the form --no-NAME if `negated` is true."""
    words: dict[str, Any] = {"dest": argument.name, "help": text}
    if argument.kind is bool:
        words["action"] = BooleanOptionalAction if negated else "store_true"
    else:
        words |= {"type": _converter(argument.kind), "metavar": argument.value.strip("[]")}
    if argument.kind is Switch:
        words |= {"nargs": "?", "const": True}
    group.add_argument(argument.name, **words)


def similar(word: str, known: Collection[str], otherwise: str) -> str:
    """Return a question with the known word that is most similar to `word`, or `otherwise` if no
    word is similar. Leading dashes are ignored."""
    bare = {name.lstrip("-"): name for name in known}
    near = get_close_matches(word.lstrip("-"), bare, n=1, cutoff=NEAREST)
    return f"did you mean {bare[near[0]]}?" if near else otherwise


def _instead(command: str, name: str, flags: Sequence[str]) -> str:
    """Suggest what to type instead of an unknown option."""
    if (ours := SYNONYMS.get(name)) in flags:
        return f"type {ours}"
    of_a_part = [flag for flag in flags if flag.rpartition(".")[2] == name.removeprefix("--")]
    if of_a_part:
        return f"type {' or '.join(of_a_part)}"
    return similar(name, flags, f"`nerfmac {command} --help-all` lists the options")


def _converter(kind: Any) -> Callable[[str], Any]:
    """Return a function that converts the text of a value to the type `kind`."""

    def convert(text: str) -> Any:
        try:
            if kind is Switch:
                return SWITCHED[text]
            if get_origin(kind) is Literal and text in get_args(kind):
                return text
            if text and get_origin(kind) is not Literal:  # An empty path is the working directory.
                # Shells do not expand the ~ in --out=~/run.
                return user_path(text) if kind is Path else kind(text)
        except (KeyError, ValueError):
            pass
        raise ArgumentTypeError(f"is {text!r}; expected {_expected(kind)}")

    return convert


def _expected(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return f"one of: {', '.join(get_args(kind))}"
    if isinstance(kind, NumberOrAuto):
        return f"{_expected(kind.number)}, or auto"
    number = {int: "an integer without a unit", float: "a number without a unit"}
    return number.get(kind, "a value")
