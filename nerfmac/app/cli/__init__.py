"""The command line: each command has a module of its own, imported only when the command runs.

This module imports no MLX, so that `nerfmac --help` is there at once, and where MLX is not.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from nerfmac.app.cli.printing import print_and_exit, refuse
from nerfmac.app.cli.synonyms import known_command

if TYPE_CHECKING:
    from nerfmac.training.method import Method

GROUPS = {
    "From photos to a run:": {
        "data": "list the public scenes of the field, and fetch one",
        "capture": "estimate the cameras of a video or of photos; write a scene",
        "inspect": "list what a scene holds and what looks wrong; draw its cameras",
        "train": "train a field on a scene, a video or photos; save a run",
    },
    "From a run to what you keep:": {
        "view": "open a run or a scene in the viewer, in JupyterLab",
        "render": "render a run along a path, to a video or images",
        "eval": "measure PSNR and SSIM of a run on a split of its scene",
        "export": "write a run's mesh, points, cameras, density or a page to fly in",
        "report": "write one page about a run: settings, curves, images, figures",
    },
    "This machine:": {
        "info": "show the device, the kernels and the caches of this machine",
        "tune": "measure which variants of operations are fastest here; keep them",
        "bench": "time operations and a image",
        "profile": "measure the time of a training step by stage and kernel",
        "selftest": "compare every kernel with its reference",
    },
}
"""Purpose of each command by its name, in groups, in the order in which a user meets them."""

COMMANDS = {command: purpose for group in GROUPS.values() for command, purpose in group.items()}

END = """Example: train on a video of a place for five minutes, then look at it.
  nerfmac train video.mp4 --seconds 300 --out runs/place
  nerfmac view runs/place

`nerfmac COMMAND --help` lists a command's flags; `nerfmac --version` shows the
version. Every command takes --log-file FILE; NERFMAC_LOG=debug shows the whole
log on standard error."""

_HELP = ("-h", "--help", "--help-all", "help")


def main(arguments: list[str] | None = None, *, method: Method | None = None) -> None:
    """Run `nerfmac COMMAND ...` with the `arguments`, by default `sys.argv`, and exit.

    `method`: None: the configuration's. Exit codes: 0 for success; 1 for a failed selftest; 2 for a
    request that cannot be met; 130 for an interruption, with a message about what is kept.
    """
    words = sys.argv[1:] if arguments is None else arguments
    if words and words[0] in ("-V", "--version"):
        from nerfmac.version import version

        print_and_exit(f"nerfmac {version()}", 0)
    is_asking = bool(words) and words[0] in _HELP
    if is_asking:  # `nerfmac help train` is `nerfmac train --help`
        words = [*words[1:2], *(["--help"] if words[1:] else [])]
    if not words:
        print_and_exit(_usage(), 0 if is_asking else 2)
    command, *rest = words
    if command not in COMMANDS:
        refuse(f"{command!r} is no command; {known_command(command, COMMANDS)}")
    try:
        from nerfmac.app.cli.dispatch import run_command
        from nerfmac.app.run import CONFIGURED
    except ImportError as error:
        from nerfmac.common.installing import why_no_mlx

        if why := why_no_mlx(error):
            refuse(why)
        raise
    run_command(command, rest, CONFIGURED if method is None else method)


def _usage() -> str:
    lines = ["usage: nerfmac COMMAND ..."]
    for title, commands in GROUPS.items():
        lines += ["", title, *(f"  {name:10}{purpose}" for name, purpose in commands.items())]
    return "\n".join([*lines, "", END])
