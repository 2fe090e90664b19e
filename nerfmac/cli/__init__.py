"""The command line: each command has a module of its own, imported only when the command runs."""

from __future__ import annotations

import errno
import os
import signal
import sys
from contextlib import nullcontext
from importlib import import_module
from typing import Any

from nerfmac.backend.build import BuildError
from nerfmac.backend.device import refuse_windows
from nerfmac.backend.faults import in_words
from nerfmac.backend.variants import from_environment
from nerfmac.cli.arguments import HELP, checked, meant
from nerfmac.cli.logs import logged, printable, printing_quoted, without_log_file
from nerfmac.common.checks import InputError
from nerfmac.ranks import LostRankError, rank_given
from nerfmac.run import CONFIGURED
from nerfmac.training.measured import DivergedError
from nerfmac.training.method import Method
from nerfmac.version import version

COMMANDS = {
    "capture": "estimate the cameras of a video or of photographs; write a scene",
    "inspect": "list what a scene holds and what looks wrong; draw its cameras and points",
    "train": "train a field on a scene; evaluate it and render a video of it",
    "view": "open a run or a scene in the viewer, in JupyterLab",
    "render": "render a run along a path, to a video or pictures",
    "eval": "measure PSNR and SSIM of a run on a split of its scene",
    "export": "write a run's mesh, points, cameras or density, in its scene's own coordinates",
    "report": "write one page about a run: configuration, curves, pictures, figures",
    "info": "show the device, the kernels and the caches of this machine",
    "tune": "measure which variants of operations are fastest on this machine, and keep them",
    "bench": "time operations and a picture on this machine",
    "profile": "measure the time of a training step by stage and kernel",
    "selftest": "compare every kernel with its reference on this machine",
}
"""Purpose of each command, in the order in which a user meets them."""

END = """`nerfmac COMMAND --help` lists a command's flags; `nerfmac --version` shows the version.
Every command takes --log-file FILE; NERFMAC_LOG=debug shows the whole log on standard error."""

_WITH_METHOD = {"train", "eval", "render", "export", "profile", "report"}
"""Commands whose `main` takes a `Method`."""

_PASSING_ON = {"view"}
"""Commands that pass the arguments after `--` to another program."""

_UNWRITABLE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES}


def main(arguments: list[str] | None = None, *, method: Method = CONFIGURED) -> None:
    """Run `nerfmac COMMAND ...` with the `arguments`, by default `sys.argv`, and exit.

    Exit codes: 0 for success; 1 for a failed selftest; 2 for a request that cannot be met; 130 for
    an interruption, with a message about what is kept.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_usage())
        sys.exit(0 if arguments else 2)
    if arguments[0] == "--version":
        print(f"nerfmac {version()}")
        sys.exit(0)
    command, *rest = arguments
    if command not in COMMANDS:
        expected = f"expected one of: {', '.join(COMMANDS)}"
        _refuse(f"{command!r} is no command; {meant(command, COMMANDS, expected)}")
    # A terminated command saves and removes what an interrupted one does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        refuse_windows()
        from_environment()  # a wrong name is refused before anything is written
        end = rest.index("--") if command in _PASSING_ON and "--" in rest else len(rest)
        rest, passed = rest[:end], rest[end + 1 :]
        rest, log_file = without_log_file(rest)
        with logged(log_file):
            module = import_module(f"nerfmac.cli.{command}")
            rest = checked(command, module.Arguments, rest)
            extra: list[Any] = [method] if command in _WITH_METHOD else []
            extra += [passed] if command in _PASSING_ON else []
            # The help is not quoted, since its colours are escape sequences.
            with nullcontext() if any(word in HELP for word in rest) else printing_quoted():
                sys.exit(module.main(rest, *extra))
    except (InputError, BuildError) as error:
        _refuse(str(error))
    except BrokenPipeError:
        # The reader has closed our output: Python must not flush the rest at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:
        if error.errno not in _UNWRITABLE:
            raise
        _refuse(f"{error.filename or 'a file'} cannot be written: {error.strerror}")
    except RuntimeError as error:
        is_plain = isinstance(error, DivergedError | LostRankError)
        if (message := str(error) if is_plain else in_words(error)) is None:
            raise
        _refuse("; ".join([message, *getattr(error, "__notes__", ())]))
    except KeyboardInterrupt as interruption:
        notes = [str(interruption), *getattr(interruption, "__notes__", ())]
        message = "; ".join(["interrupted", *filter(None, notes)])
        print(printable(f"nerfmac: {message}"), file=sys.stderr)
        sys.exit(130)


def _usage() -> str:
    lines = [f"  {command:10}{purpose}" for command, purpose in COMMANDS.items()]
    return "\n".join(["usage: nerfmac COMMAND ...", "", *lines, "", END])


def _refuse(message: str) -> None:
    where = f"rank {rank_given()}: " if rank_given() else ""
    print(printable(f"nerfmac: {where}{message}"), file=sys.stderr)
    sys.exit(2)
