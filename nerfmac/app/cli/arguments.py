"""Arguments of a command, which are declared as the fields of its dataclass, and their parsing with
`argparse`. This module does not import MLX."""

from __future__ import annotations

import ast
import inspect
import re
from argparse import SUPPRESS, ArgumentParser, ArgumentTypeError, BooleanOptionalAction
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from difflib import get_close_matches
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, NoReturn, TypeVar, get_args, get_origin, get_type_hints

from nerfmac.common import InputError, user_path
from nerfmac.config.settings import Written

Record = TypeVar("Record")  # Dataclass.

UNPREFIXED = "unprefixed"
"""Metadata key of a field with a dataclass whose options have no prefix, such as --seed. A field of
the outer dataclass replaces an option with the same name."""
POSITIONAL = object()  # Marker of a positional argument in the annotation of its field.

LOG_FILE = "--log-file"  # Option of every command.
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


@dataclass(frozen=True)
class Kind:
    """Type of the value of an argument."""

    name: str  # Name in a help page, such as "FLOAT"; empty for an option without a value.
    expected: str  # Allowed values, for error messages.
    convert: Callable[[str], Any]  # Converts a text, or raises `KeyError` or `ValueError`.

    @classmethod
    def choice(cls, values: Mapping[str, Any]) -> Kind:
        """Return the type of one of several values, keyed by their texts."""
        return cls("|".join(values), f"one of: {', '.join(values)}", values.__getitem__)

    @classmethod
    def of(cls, hint: Any, *, is_setting: bool = False) -> Kind:
        """Return the type of a field with the annotation `hint`. Settings are nested fields. If a
        setting may be None, its word is "auto"."""
        if hint is bool:
            return FLAG
        if hint == bool | None:
            return SWITCH
        is_optional = NoneType in get_args(hint)
        kind = (
            next(kind for kind in get_args(hint) if kind is not NoneType) if is_optional else hint
        )
        if get_origin(kind) is Literal:
            return cls.choice({value: value for value in get_args(kind)})
        number = {int: "an integer without a unit", float: "a number without a unit"}
        name, expected = kind.__name__.upper(), number.get(kind, "a value")
        convert = user_path if kind is Path else kind  # Shells do not expand the ~ in --out=~/run.
        if not (is_setting and is_optional):
            return cls(name, expected, convert)
        return cls(
            f"{name}|auto",
            f"{expected}, or auto",
            lambda text: None if text == "auto" else convert(text),
        )


FLAG = Kind("", "", bool)  # Type of an option without a value.
SWITCH = Kind.choice({"auto": None, "on": True, "off": False})
"""Type of an option for a setting that is None ("auto"), True ("on"), or False ("off"). If the
option is given without a value, it means "on"."""


@dataclass(frozen=True)
class Argument:
    """Option or positional argument."""

    name: str  # Option, such as "--grid.levels", or positional argument, such as "SCENE".
    path: tuple[str, ...]  # Names of the nested fields, such as ("settings", "grid", "levels").
    kind: Kind
    value: str  # Name of the value in a help page, such as "FOLDER"; empty for a `FLAG`.
    default: Any  # Default value; `MISSING` for a required argument.
    owner: type  # Dataclass that declares the field.
    parse: Callable[[str], Any] | None = None  # Converts the text to the value.

    @property
    def is_option(self) -> bool:
        """Whether this is an option and not a positional argument."""
        return self.name.startswith("-")

    @property
    def text(self) -> str:
        """Documentation of the field, in one line."""
        return documentation(self.owner)[self.path[-1]]


@cache
def declared(arguments: type) -> Sequence[Argument]:
    """Return the arguments of a dataclass: its fields, then inherited fields, then the fields of
    nested dataclasses, such as `--grid.levels`. Names lose a trailing underscore."""
    own = inspect.get_annotations(arguments)

    def order(argument: Argument) -> tuple[bool, bool]:
        return "." in argument.name, argument.is_option and argument.path[-1] not in own

    return sorted(_declared(arguments), key=order)


def positionals_of(arguments: type) -> list[Argument]:
    """Return the positional arguments of a dataclass, in order."""
    return [argument for argument in declared(arguments) if not argument.is_option]


def options_of(arguments: type) -> list[Argument]:
    """Return the options of a dataclass, in the order of `declared`."""
    return [argument for argument in declared(arguments) if argument.is_option]


def _declared(owner: type, *, is_part: bool = False) -> Iterator[Argument]:
    hints = get_type_hints(owner, include_extras=True)
    for field in fields(owner):
        hint = hints[field.name]
        hint, *marks = get_args(hint) if get_origin(hint) is Annotated else (hint,)
        name = field.name.rstrip("_").replace("_", "-")
        if is_dataclass(hint) and isinstance(hint, type):
            prefix = "" if UNPREFIXED in field.metadata else f"{name}."
            for inner in _declared(hint, is_part=True):
                if prefix or inner.path[0] not in hints:
                    flag = f"--{prefix}{inner.name.removeprefix('--')}"
                    yield replace(inner, name=flag, path=(field.name, *inner.path))
            continue
        is_option = POSITIONAL not in marks
        name = f"--{name}" if is_option else name.upper()
        written = next((mark for mark in marks if isinstance(mark, Written)), Written(""))
        kind = Kind.of(str if written.parse else hint, is_setting=is_part)
        value = written.name or (kind.name if is_option else name)
        yield Argument(name, (field.name,), kind, value, field.default, owner, written.parse)


@cache
def documentation(owner: type) -> dict[str, str]:
    """Return the documentation of each field: the string below it, or the comment in its line. Keys
    are field names. Each text is one line."""
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
            texts[node.target.id] = " ".join(text.split())
    return texts


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
    parser.add_argument(LOG_FILE, dest=LOG_FILE, type=_converter(Kind.of(Path)))
    names, options = positionals_of(arguments), options_of(arguments)
    for option in options:
        add_option(parser, option)
    # Words after `--` are no options, so that a file name may begin with a hyphen.
    end = [*words, "--"].index("--")
    known, rest = parser.parse_known_args(words[:end])
    # All positional arguments are single words, and `argparse` returns these words unparsed.
    for word in rest:
        if word.startswith("-"):
            name = word.partition("=")[0]
            advice = _instead(command, name, [option.name for option in options])
            raise InputError(f"nerfmac {command} has no option {name}; {advice}")
    rest += words[end + 1 :]
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
        given[argument.name] = argument.kind.convert(word)
    for option in options:  # After `argparse`, which would change the error messages.
        if option.parse is not None and option.name in given:
            given[option.name] = option.parse(given[option.name])
    return given


def built(arguments: type[Record], given: Mapping[str, Any], default: Any = None) -> Record:
    """Create an instance of the dataclass `arguments` from the values that `given_by` returned.
    `default` has the other values. The attribute `typed` lists the names of the given values."""
    owner: Any = arguments
    values = {each.path: given[each.name] for each in declared(owner) if each.name in given}
    record: Record = _built(owner, values, default)
    object.__setattr__(record, "typed", tuple(given))  # The dataclasses are frozen.
    return record


def _built(owner: Any, values: Mapping[tuple[str, ...], Any], default: Any) -> Any:
    """Create an instance of a dataclass from the values of its fields and nested fields."""
    own = {name: value for (name, *rest), value in values.items() if not rest}
    for part in {name for name, *rest in values if rest}:
        inner = {path[1:]: value for path, value in values.items() if path[0] == part}
        record = getattr(owner() if default is None else default, part)
        own[part] = _built(type(record), inner, record)
    return owner(**own) if default is None else replace(default, **own)


def part_of(arguments: Any, part: type[Record], **changes: Any) -> Record:
    """Return the fields of the dataclass `part` of an instance of one of its subclasses, with some
    changes."""
    owner: Any = part
    values = {field.name: getattr(arguments, field.name) for field in fields(owner)}
    return part(**values | changes)


def add_option(group: Any, argument: Argument, text: str = "", *, negated: bool = True) -> None:
    """Add an option with a help text to an `argparse` parser or group. An option without a value
    also has the form --no-NAME if `negated` is true."""
    words: dict[str, Any] = {"dest": argument.name, "help": text}
    if argument.kind is FLAG:
        words["action"] = BooleanOptionalAction if negated else "store_true"
    else:
        words |= {"type": _converter(argument.kind), "metavar": argument.value.strip("[]")}
    if argument.kind is SWITCH:
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


def _converter(kind: Kind) -> Callable[[str], Any]:
    """Return a function that converts the text of a value, for `argparse`."""

    def convert(text: str) -> Any:
        try:
            if text:  # An empty path would be the working directory.
                return kind.convert(text)
        except (KeyError, ValueError):
            pass
        raise ArgumentTypeError(f"is {text!r}; expected {kind.expected}")

    return convert
