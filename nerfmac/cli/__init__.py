"""The command line: one file a verb, imported only when it is asked for."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import nullcontext
from importlib import import_module

from nerfmac.backend.build import BuildError
from nerfmac.backend.device import refuse_windows
from nerfmac.backend.faults import in_words
from nerfmac.backend.variants import from_environment
from nerfmac.cli.arguments import HELP, checked, meant
from nerfmac.cli.logs import logged, without_log_file
from nerfmac.cli.terminal import printable, printing_quoted
from nerfmac.common.checks import InputError
from nerfmac.ranks import LostRankError, rank_given
from nerfmac.run import CONFIGURED
from nerfmac.training.measured import DivergedError
from nerfmac.training.method import Method
from nerfmac.version import __version__

VERBS = {
    "capture": "find where the cameras of a video or of photographs stood; write a scene",
    "inspect": "what is in a scene and what looks wrong; draw its cameras and points",
    "train": "train a field on a scene; evaluate it and render a video of it",
    "view": "open a run or a scene in a viewer that trains on, in JupyterLab",
    "render": "render a run along a path, to a video or pictures",
    "eval": "PSNR and SSIM of a run on a split of its scene",
    "export": "a run's mesh, points, cameras or density, in its scene's own coordinates",
    "report": "one page of a run: configuration, curves, pictures, figures",
    "info": "what this machine computes with",
    "tune": "measure which variants of operations are quickest here, and keep them",
    "bench": "time operations and a picture on this machine",
    "profile": "where the time of a training step goes, by stage and kernel",
    "selftest": "compare every kernel with its reference on this machine",
}
"""What each verb does, in the order in which a user comes to them."""

END = """nerfmac VERB --help says more; nerfmac --version says which nerfmac this is.
Every verb takes --log-file FILE; NERFMAC_LOG=debug shows all of that on standard error."""

_WITH_METHOD = {"train", "eval", "render", "export", "profile", "report"}
"""Verbs that begin or load a run in this process."""

_PASSING_ON = {"view"}
"""Verbs that pass what follows `--` on, to another program."""

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES}


def main(arguments: list[str] | None = None, *, method: Method = CONFIGURED) -> None:
    """Run `nerfmac VERB ...` and exit: 0; 1 for a failed selftest; 2 for what cannot be done.

    What is interrupted exits with 130, as shells have it, and says what is kept.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_usage())
        sys.exit(0 if arguments else 2)
    if arguments[0] == "--version":
        print(f"nerfmac {__version__}")
        sys.exit(0)
    verb, *rest = arguments
    if verb not in VERBS:
        expected = f"expected one of: {', '.join(VERBS)}"
        _refuse(f"{verb!r} is no verb; {meant(verb, VERBS, expected)}")
    try:
        refuse_windows()
        from_environment()  # what it names wrongly is found out before anything is written
        end = rest.index("--") if verb in _PASSING_ON and "--" in rest else len(rest)
        rest, passed = rest[:end], rest[end + 1 :]
        rest, log_file = without_log_file(rest)
        with logged(log_file):
            module = import_module(f"nerfmac.cli.{verb}")
            rest = checked(verb, module.Arguments, rest)
            extra = [method] if verb in _WITH_METHOD else [passed] if verb in _PASSING_ON else []
            # The help has escape sequences of its own: colours.
            with nullcontext() if any(word in HELP for word in rest) else printing_quoted():
                sys.exit(module.main(rest, *extra))
    except (InputError, BuildError) as error:
        _refuse(str(error))
    except BrokenPipeError:
        # The reader of our output has closed it; Python must not try to flush the rest.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        _refuse(f"{error.filename or 'a file'} cannot be written: {error.strerror}")
    except RuntimeError as error:
        is_told = isinstance(error, DivergedError | LostRankError)
        if (told := str(error) if is_told else in_words(error)) is None:
            raise
        _refuse("; ".join([told, *getattr(error, "__notes__", ())]))
    except KeyboardInterrupt as interruption:
        notes = [str(interruption), *getattr(interruption, "__notes__", ())]
        told = "; ".join(["interrupted", *filter(None, notes)])
        print(printable(f"nerfmac: {told}"), file=sys.stderr)
        sys.exit(130)


def _usage() -> str:
    lines = [f"  {verb:10}{purpose}" for verb, purpose in VERBS.items()]
    return "\n".join(["usage: nerfmac VERB ...", "", *lines, "", END])


def _refuse(message: str) -> None:
    where = f"rank {rank_given()}: " if rank_given() else ""
    print(printable(f"nerfmac: {where}{message}"), file=sys.stderr)
    sys.exit(2)
