"""Execution of a command: imports its module, validates its arguments, and reports its errors."""

import errno
import signal
import sys
from importlib import import_module
from typing import Any, NoReturn

from nerfmac.app.cli import printing
from nerfmac.app.cli.arguments import LOG_FILE, built, given_by, options_of
from nerfmac.app.cli.options import OPTIONS
from nerfmac.backend import BuildError, from_environment, in_words, refuse_windows
from nerfmac.common import InputError
from nerfmac.ranks import LostRankError, rank_given
from nerfmac.training.measured import DivergedError
from nerfmac.training.method import Method

FUNCTIONS = {
    **{name: f"scenes.{name}" for name in ("data", "capture", "inspect")},
    **{name: f"{name}.main" for name in ("train", "view", "render")},
    **{name: f"measuring.{name}" for name in ("profile", "selftest")},
    **{"eval": "results.evaluate", "export": "results.export"},
    "info": "info.info",
}
"""Module and function of each command."""
_WITH_METHOD = {"train", "eval", "render", "export", "profile"}
"""Names of the commands with a function that accepts a `Method`."""
_PASSING_ON = {"view"}  # Commands that pass arguments after `--` to another program.
_UNWRITABLE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES}
_UNUSABLE = {errno.ENAMETOOLONG, errno.EILSEQ}  # APFS refuses names that are not UTF-8.


def run_command(command: str, rest: list[str], method: Method) -> NoReturn:
    """Run a command with the arguments `rest`, and exit with a code listed in `cli.main`."""
    # Handle SIGTERM, for example at the time limit of a job, and SIGHUP, when the terminal is
    # closed, like Ctrl-C, so that results are saved and incomplete files are removed. With `nohup`,
    # SIGHUP is ignored.
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, 0)  # SIGHUP does not exist on Windows.
        if number and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)
    try:
        refuse_windows()
        from_environment()  # Rejects an invalid NERFMAC_VARIANTS before any file is written.
        code = 0
        with printing.until_closed():
            code = _run(command, rest, method)
        sys.exit(code)
    except InputError as error:
        options = [option.name for option in options_of(OPTIONS[command])]
        _refuse(_noted(printing.with_flag(str(error), options), error))
    except OSError as error:
        if error.errno not in _UNWRITABLE | _UNUSABLE:
            raise
        verb = "use" if error.errno in _UNUSABLE else "write"
        _refuse(f"cannot {verb} {error.filename or 'a file'}: {error.strerror}")
    except (RuntimeError, ValueError) as error:
        is_plain = isinstance(error, BuildError | DivergedError | LostRankError)
        if (message := str(error) if is_plain else in_words(error)) is None:
            raise
        _refuse(_noted(message, error))
    except KeyboardInterrupt as interruption:
        message = "; ".join(filter(None, ["interrupted", _noted(str(interruption), interruption)]))
        print(printing.printable(f"nerfmac: {message}"), file=sys.stderr)
        sys.exit(130)


def _run(command: str, rest: list[str], method: Method) -> int:
    """Run the command and return its exit code."""
    end = rest.index("--") if command in _PASSING_ON and "--" in rest else len(rest)
    rest, passed = rest[:end], rest[end + 1 :]
    given = given_by(command, OPTIONS[command], rest)
    with printing.logged(given.pop(LOG_FILE, None)):
        name, _, function = FUNCTIONS[command].partition(".")
        run = getattr(import_module(f"nerfmac.app.cli.{name}"), function)
        # The defaults of `train` depend on --preset.
        arguments = given if command == "train" else built(OPTIONS[command], given)
        extra: list[Any] = [method] if command in _WITH_METHOD else []
        extra += [passed] if command in _PASSING_ON else []
        with printing.printing_quoted():
            return int(run(arguments, *extra))


def _noted(message: str, error: BaseException) -> str:
    """Return a message followed by the notes of an exception."""
    return "; ".join(filter(None, [message, *getattr(error, "__notes__", ())]))


def _refuse(message: str) -> NoReturn:
    printing.refuse(f"rank {rank_given()}: {message}" if rank_given() else message)
