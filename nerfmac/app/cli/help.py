"""Formatting of the help pages of commands, with the main options or all options, in 80 columns.

A help page shows the defaults of the dataclasses, so that it is the same on every machine.
"""

from argparse import SUPPRESS, ArgumentParser, HelpFormatter
from dataclasses import MISSING
from inspect import getdoc
from textwrap import wrap
from typing import Any

from nerfmac.app.cli.arguments import FLAG, Argument, add_option, options_of, positionals_of
from nerfmac.app.cli.options import OPTIONS, Train

WIDTH = 80
FLAG_COLUMNS = 25  # Width of options and their values; longer ones get separate lines.
COMMON = {
    "train": "out seconds steps preset device resume downscale max-images split up "
    "refine.poses seed video",
    "render": "path frames seconds fps size output background samples-per-pixel depth-of-field "
    "motion-blur out resume overwrite device",
}
"""Options on the short help page of each command. The help pages of other commands list all
options."""
EXAMPLES = {
    "data": ("", "fox"),
    "capture": ("video.mp4 --out captures/room",),
    "inspect": ("captures/room",),
    "train": (
        "video.mp4 --seconds 300 --out runs/room",
        "scenes/lego --preset base --steps 20000",
        "--out runs/room --resume --seconds 900",
    ),
    "view": ("runs/room", "scenes/lego"),
    "render": (
        "runs/room --seconds 8 --size 1280x720",
        "runs/room --path path.json --out video.mp4",
        "runs/room --output depth --out depth",
    ),
    "eval": ("runs/room --json metrics.json",),
    "export": ("runs/room mesh.ply", "runs/room room.html"),
    "info": ("",),
    "profile": ("runs/room --trace trace.json",),
    "selftest": ("--report selftest.json",),
}
"""Arguments of the examples on the help page of each command."""
DEFAULTS = (
    "The listed defaults are the defaults of the preset base. Other presets change some of these "
    "defaults. The file config.json in a run folder lists all settings of the run."
)


class _Formatter(HelpFormatter):
    """Formatter that never breaks options and names at hyphens, so that users can copy them."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=FLAG_COLUMNS, width=WIDTH)

    def _split_lines(self, text: str, width: int) -> list[str]:
        return wrap(text, width, break_on_hyphens=False)


def help_page(command: str, *, everything: bool) -> str:
    """Format the help page of a command. Unless `everything` is true, a page of a command in
    `COMMON` shows only the options listed there, with one sentence each."""
    arguments = OPTIONS[command]
    positionals, options = positionals_of(arguments), options_of(arguments)
    count = len(positionals) + len(options)
    names = COMMON.get(command, "").split()
    is_short = bool(names) and not everything
    if is_short:
        by_name = {option.name: option for option in options}
        options = [by_name[f"--{name}"] for name in names]
    usage = " ".join(argument.value for argument in positionals)
    parser = ArgumentParser(
        usage=f"nerfmac {command} {usage} [OPTIONS]".replace("  ", " "),
        description=getdoc(arguments),
        epilog=DEFAULTS if arguments is Train and everything else None,
        formatter_class=_Formatter,
        add_help=False,
        argument_default=SUPPRESS,
    )
    groups: dict[str, Any] = {}
    for argument in (*positionals, *options):
        title, description = _group(argument, arguments, is_short)
        if title not in groups:
            groups[title] = parser.add_argument_group(title, description)
        _add(groups[title], argument, is_short)
    if is_short:
        rest = f"Show all {count} options with full descriptions."
        groups["options"].add_argument("--help-all", action="store_true", help=rest)
    examples = [f"  nerfmac {command} {words}".rstrip() for words in EXAMPLES[command]]
    return "\n".join([parser.format_help(), "examples:", *examples])


def _group(argument: Argument, arguments: type, is_short: bool) -> tuple[str, str | None]:
    """Return the title and the description of the argument group of `argument`."""
    if not argument.is_option:
        return "arguments", None
    if "." not in argument.name or is_short:
        return "options", None
    about = (getdoc(argument.owner) or "").partition("\n\n")[0]
    return argument.name.partition(".")[0].removeprefix("--"), about


def _add(group: Any, argument: Argument, is_short: bool) -> None:
    """Add `argument` with its help text to an `argparse` group."""
    text, mark, default = argument.text.partition(" [default: ")
    text = (first_sentence(text) if is_short else text) + mark + default
    if argument.kind is FLAG and argument.default is True:
        text += " [default: on]"
    elif argument.kind is not FLAG and argument.default not in (None, MISSING, "auto", ()):
        text += f" [default: {argument.default}]"
    text = text.replace("%", "%%")
    if argument.is_option:
        add_option(group, argument, text, negated=argument.default is True)
    else:
        group.add_argument(argument.name, metavar=argument.value.strip("[]"), help=text)


def first_sentence(text: str) -> str:
    """Return `text` up to and including the first full stop that is followed by a space."""
    first, end, _ = text.partition(". ")
    return first + end.rstrip()
