"""Help pages of the commands: the flags that most need, or all; examples; 80 columns wide.

A page is the same on every machine. The defaults that it shows are those of the dataclasses.
"""

from __future__ import annotations

from argparse import ArgumentParser, HelpFormatter
from dataclasses import MISSING
from inspect import getdoc
from textwrap import wrap
from typing import Any

from nerfmac.app.cli.declared import Argument, declared, positionals_of
from nerfmac.app.cli.synonyms import first_sentence
from nerfmac.config import Config

WIDTH = 80
FLAG_COLUMNS = 25
"""Columns of a page that flags and their values take; a longer flag has a line of its own."""

COMMON = {
    "train": "out seconds steps preset device resume downscale max-images split up "
    "refine.poses seed video",
    "render": "path frames seconds fps size output background samples-per-pixel depth-of-field "
    "motion-blur out resume overwrite device",
}
"""Flags that the short page of a command shows; other commands' pages show all."""

EXAMPLES = {
    "data": ("", "fox"),
    "capture": ("video.mp4 --out captures/place",),
    "inspect": ("captures/place",),
    "train": (
        "video.mp4 --seconds 300 --out runs/place",
        "scenes/lego --preset base --steps 20000",
        "--out runs/place --resume --seconds 900",
    ),
    "view": ("runs/place", "scenes/lego"),
    "render": (
        "runs/place --seconds 8 --size 1280x720",
        "runs/place --path path.json --out video.mp4",
        "runs/place --output depth --out depth",
    ),
    "eval": ("runs/place --json figures.json",),
    "export": ("runs/place mesh.ply", "runs/place place.html"),
    "report": ("runs/place",),
    "info": ("",),
    "tune": ("",),
    "bench": (
        "--json figures.json",
        "--models --seconds 60",
    ),
    "profile": ("runs/place --trace trace.json",),
    "selftest": ("--report selftest.json",),
}
"""Arguments of the examples on a command's page."""

DEFAULTS = (
    "Defaults are those of preset base. The other presets change some of them; config.json in a "
    "run's folder has all that the run was trained with."
)


class _Formatter(HelpFormatter):
    """Lays out a page; flags and names with hyphens stay whole, to be copied."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=FLAG_COLUMNS, width=WIDTH)

    def _split_lines(self, text: str, width: int) -> list[str]:
        return wrap(text, width, break_on_hyphens=False)


def help_page(command: str, arguments: type, *, everything: bool) -> str:
    """The help page of a `command` with the dataclass `arguments`.

    `everything`: all flags with all that is said of them, not only those in `COMMON` with the first
    sentence of each.
    """
    flags = [argument for argument in declared(arguments) if argument.is_flag]
    names = COMMON.get(command, "").split()
    is_short = bool(names) and not everything
    if is_short:
        by_name = {argument.name: argument for argument in flags}
        flags = [by_name[f"--{name}"] for name in names]
    usage = " ".join(argument.value for argument in positionals_of(arguments))
    parser = ArgumentParser(
        usage=f"nerfmac {command} {usage} [FLAGS]".replace("  ", " "),
        description=getdoc(arguments),
        epilog=DEFAULTS if issubclass(arguments, Config) and everything else None,
        formatter_class=_Formatter,
        add_help=False,
    )
    groups: dict[str, Any] = {}
    for argument in (*positionals_of(arguments), *flags):
        title, description = _group(argument, arguments, is_short)
        if title not in groups:
            groups[title] = parser.add_argument_group(title, description)
        _add(groups[title], argument, is_short)
    if is_short:
        rest = f"Show all flags, {len(declared(arguments))} in all, and more about each."
        groups["flags"].add_argument("--help-all", action="store_true", help=rest)
    examples = [f"  nerfmac {command} {words}".rstrip() for words in EXAMPLES[command]]
    return "\n".join([parser.format_help(), "examples:", *examples])


def _group(argument: Argument, arguments: type, is_short: bool) -> tuple[str, str | None]:
    """Title and description of the group of arguments that `argument` belongs to."""
    if not argument.is_flag:
        return "arguments", None
    if argument.owner is arguments or is_short:
        return "flags", None
    about = (getdoc(argument.owner) or "").partition("\n\n")[0]
    return argument.name.partition(".")[0].removeprefix("--"), about


def _add(group: Any, argument: Argument, is_short: bool) -> None:
    """Add `argument` to a group of `argparse`, which lays out the page and parses nothing."""
    text = first_sentence(argument.text) if is_short else argument.text
    names = [argument.name]
    if argument.kind is bool and argument.default is True:
        names.append(f"--no-{argument.name.removeprefix('--')}")
        text += " (default: yes)"
    elif argument.kind is not bool and argument.default not in (None, MISSING, "auto", ()):
        text += f" (default: {argument.default})"
    text = text.replace("%", "%%")
    if argument.kind is bool:
        group.add_argument(*names, action="store_true", help=text)
    else:
        group.add_argument(*names, metavar=argument.value.strip("[]"), help=text)
