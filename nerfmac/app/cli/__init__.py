"""Command-line interface. The module of a command is imported only when the command runs. This
module, `help`, and `options` do not import MLX, so help pages appear immediately."""

from __future__ import annotations

import sys
from itertools import takewhile
from typing import TYPE_CHECKING

from nerfmac.app.cli.arguments import similar
from nerfmac.app.cli.printing import print_and_exit, refuse

if TYPE_CHECKING:
    from nerfmac.training.method import Method

GROUPS = {
    "Create a run:": {
        "data": "list public NeRF scenes, or download a scene",
        "capture": "estimate the camera poses of photos or a video, and write a scene",
        "inspect": "check a scene for problems, and draw its cameras",
        "train": "train a field on a scene, a video, or photos, and save a run",
    },
    "Use a run:": {
        "view": "open a run or a scene in the viewer",
        "render": "render a video or images along a camera path",
        "eval": "measure PSNR and SSIM of a run on a split of its scene",
        "export": "export a mesh, points, cameras, density, or an interactive page",
    },
    "Check this machine:": {
        "info": "show the device, the kernels, and the cache folders",
        "profile": "time each stage and kernel of a training step",
        "selftest": "compare every kernel with its reference implementation",
    },
}
"""One-line description of each command. The groups follow the typical order of use."""
COMMANDS = {command: purpose for group in GROUPS.values() for command, purpose in group.items()}
END = """Example:
  nerfmac train video.mp4 --seconds 300 --out runs/room

`nerfmac COMMAND --help` lists the options of a command. Every command accepts
--log-file FILE. NERFMAC_LOG=debug prints debug messages."""
_HELP = ("-h", "--help", "--help-all")


def main(arguments: list[str] | None = None, *, method: Method | None = None) -> None:
    """Run `nerfmac COMMAND ...` and exit.

    The exit code is 0 for success, 1 if the self-test fails, 2 for an invalid request, and 130
    after an interruption. Error messages and notes about saved results are printed to standard
    error.

    Args:
        arguments: Command and its arguments. By default `sys.argv[1:]`.
        method: Method to train and load runs with. By default, the method that the configuration
            selects.
    """
    words = sys.argv[1:] if arguments is None else arguments
    if words and words[0] in ("-V", "--version"):
        from nerfmac.version import version

        print_and_exit(f"nerfmac {version()}", 0)
    is_asking = bool(words) and words[0] in (*_HELP, "help")
    if is_asking:  # `nerfmac help train` is `nerfmac train --help`
        words = [*words[1:2], *(["--help"] if words[1:] else [])]
    if not words:
        print_and_exit(_usage(), 0 if is_asking else 2)
    command, *rest = words
    if command not in COMMANDS:
        expected = f"expected one of: {', '.join(COMMANDS)}; see `nerfmac --help`"
        refuse(f"unknown command {command!r}; {similar(command, COMMANDS, expected)}")
    asked = [word for word in takewhile(lambda word: word != "--", rest) if word in _HELP]
    if asked:
        from nerfmac.app.cli.help import help_page

        print_and_exit(help_page(command, everything="--help-all" in asked), 0)
    try:
        from nerfmac.app.cli.dispatch import run_command
        from nerfmac.app.run import CONFIGURED
    except ImportError as error:
        from nerfmac.common import why_no_mlx

        if why := why_no_mlx(error):
            refuse(why)
        raise
    run_command(command, rest, CONFIGURED if method is None else method)


def _usage() -> str:
    lines = ["usage: nerfmac COMMAND ... | --version"]
    for title, commands in GROUPS.items():
        lines += ["", title, *(f"  {name:10}{purpose}" for name, purpose in commands.items())]
    return "\n".join([*lines, "", END])
