"""Fuzz every file reader with mutated files, and save each input that causes a fault.

    python scripts/fuzz.py                               every reader, a minute each
    python scripts/fuzz.py ply llff --executions 100000 --seed 7

An input causes a fault if reading it raises an exception other than `InputError`, ends the process,
or takes more than 5 s of CPU time, more than a minute, or more than 2 GB of memory. Valid files
from `tests/fuzzing/readers.py` are mutated with `tests/fuzzing/mutations.py`. If atheris is
installed (`uv pip install atheris`), inputs that execute new code of nerfmac are mutated further.
Atheris is not available for every system, so it is not a dependency. Without atheris, or with
--blind, every input is a mutation of a valid file.

Each reader runs in a separate process that is restarted after a fault that ends it. Inputs that
cause a fault are saved in --out with their tracebacks. Their file names are suitable for
`tests/fuzzing/corpus`. A fault is reported once for each line of nerfmac that raises it.
"""

from __future__ import annotations

import argparse
import logging
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # to import `tests` and the nerfmac package of this checkout

MOST_SECONDS, MOST_WAITING = 5, 60
MOST_BYTES = 2 * 2**30
STARTS = 50
"""Maximum number of times that the process of a reader is started."""


class Figures(NamedTuple):
    """Summary of a reader's runs. `slowest` is the longest CPU time in seconds, and `memory` is the
    increase in memory in MiB."""

    executions: int = 0
    refused: int = 0
    slowest: float = 0.0
    memory: float = 0.0


class Trial:
    """Executes inputs of one reader in its `folder`, and counts the executions. An input consists
    of a file index and the content of this file."""

    def __init__(self, name: str, folder: Path, out: Path) -> None:
        from tests.fuzzing.readers import READERS, attempt

        self._reader, self._attempt, self._out, self._name = READERS[name], attempt, out, name
        self._folder = folder / "files"
        self._reader.write(self._folder)
        self.files = self._reader.files(self._folder)
        self.valid = [file.read_bytes() for file in self.files]
        assert attempt(self._reader.read, self._folder) is None, (
            f"{name}: its own files are refused"
        )
        self._start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        limit = _data_bytes() + MOST_BYTES
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
        self._figures = np.memmap(folder / "figures", np.float64, "w+", shape=(4,))

    def mutated(self, data: bytes, rng: random.Random) -> bytes:
        """Return a mutation of the input `data`."""
        from tests.fuzzing.mutations import mutation_of

        index = data[0] % len(self.files) if data and rng.random() < 0.95 else rng.randrange(255)
        index %= len(self.files)
        is_other = not data or index != data[0] % len(self.files)
        content = self.valid[index] if is_other else data[1:]
        return bytes([index]) + mutation_of(self.files[index].name)(content, rng)

    def execute(self, data: bytes) -> None:
        """Read the folder with one file replaced. If this causes a fault, save the input."""
        index = data[0] % len(self.files) if data else 0
        self.files[index].write_bytes(data[1:])
        begun = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)  # SIGPROF ends the process
        try:
            is_refused = self._attempt(self._reader.read, self._folder) is not None
        except Exception as error:  # any exception other than an InputError is a fault
            is_refused = False
            save(self._out, self._name, self.files[index], error)
        signal.setitimer(signal.ITIMER_PROF, 0)
        slowest = max(self._figures[2], time.process_time() - begun)
        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - self._start
        self._figures[:] = (
            self._figures[0] + 1,
            self._figures[1] + is_refused,
            slowest,
            used / 1024,
        )
        self.files[index].write_bytes(self.valid[index])


def save(out: Path, name: str, file: Path, error: Exception | str) -> None:
    """Save the content of `file` and the error, unless a fault at the same line of code has been
    saved before."""
    if isinstance(error, str):
        place, told = error, error
    else:
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if str(ROOT / "nerfmac") in frame.filename] or frames
        place = f"{type(error).__name__}-{Path(own[-1].filename).stem}-{own[-1].lineno}"
        told = "".join(traceback.format_exception(error))
    kept = out / name / f"{place}.{file.name}"
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_bytes(file.read_bytes())
        kept.with_name(f"{kept.name}.traceback").write_text(told, errors="backslashreplace")


def _data_bytes() -> int:
    """Return the memory in bytes of this process that RLIMIT_DATA limits. On systems other than
    Linux, return 0."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmData")), 0)


def blindly(trial: Trial, rng: random.Random, more: Callable[[], bool]) -> None:
    """Execute inputs that are mutations of valid files, until `more()` is False."""
    while more():
        index = rng.randrange(len(trial.files))
        trial.execute(trial.mutated(bytes([index]) + trial.valid[index], rng))


def guided(trial: Trial, folder: Path, seed: int, more: Callable[[], bool]) -> None:
    """Execute mutations of inputs that executed new code. The function ends the process."""
    import atheris

    def execute(data: bytes) -> None:
        if not more():
            os._exit(0)
        trial.execute(data)

    def mutate(data: bytes, _most: int, seed: int) -> bytes:
        return trial.mutated(data, random.Random(seed))

    corpus = folder / "corpus"
    corpus.mkdir()
    for index, content in enumerate(trial.valid):
        (corpus / str(index)).write_bytes(bytes([index]) + content)
    flags = [
        f"-seed={seed}",
        f"-timeout={MOST_WAITING}",
        "-rss_limit_mb=0",
        "-max_len=1048576",
        "-len_control=0",
    ]
    flags += [
        "-mutate_depth=2",
        "-verbosity=0",
        "-print_final_stats=0",
        f"-artifact_prefix={folder}/",
    ]
    atheris.Setup([sys.argv[0], *flags, str(corpus)], execute, custom_mutator=mutate)
    atheris.Fuzz()


def child(options: argparse.Namespace) -> None:
    """Fuzz one reader in this process."""
    if not options.blind:
        import atheris

        with atheris.instrument_imports(include=["nerfmac"]):
            import_module("tests.fuzzing.readers")
    import mlx.core as mx

    mx.set_default_device(mx.cpu)
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")  # Pillow's warnings about broken EXIF are not faults
    trial = Trial(options.readers[0], options.folder, options.out)
    end, left = time.monotonic() + options.seconds, options.executions

    def more() -> bool:
        nonlocal left
        left -= 1
        return left >= 0 and time.monotonic() < end

    if options.blind:
        blindly(trial, random.Random(options.seed), more)
    else:
        guided(trial, options.folder, options.seed, more)


def fuzz(name: str, options: argparse.Namespace) -> Figures:
    """Fuzz a reader in separate processes until its time or its executions are used up."""
    total, end = Figures(), time.monotonic() + options.seconds
    for start in range(STARTS):
        left, seconds = options.executions - total.executions, end - time.monotonic()
        if left <= 0 or seconds <= 0:
            break
        with tempfile.TemporaryDirectory(prefix="fuzz-") as place:
            folder, seed = Path(place), options.seed + 1000 * start
            flags = ["--child", place, "--executions", str(left), "--seconds", str(seconds)]
            flags += ["--seed", str(seed), "--out", str(options.out), *["--blind"] * options.blind]
            command = [sys.executable, __file__, name, *flags]
            environment = os.environ | {"MALLOC_ARENA_MAX": "2"}
            with (folder / "told").open("wb") as told:
                ended = _ended(command, told, environment, seconds + MOST_WAITING)
            if not (folder / "figures").exists():
                sys.exit((folder / "told").read_text(errors="replace"))
            one = Figures(*np.fromfile(folder / "figures", np.float64))
            total = Figures(
                int(total.executions + one.executions),
                int(total.refused + one.refused),
                max(total.slowest, one.slowest),
                max(total.memory, one.memory),
            )
            if ended:
                _save_last(name, folder, options.out, ended)
    return total


def _ended(command: list[str], told: IO[bytes], environment: dict[str, str], most: float) -> int:
    """Run `command`, kill it after `most` seconds, and return its exit status."""
    with subprocess.Popen(command, stdout=told, stderr=told, env=environment) as process:
        try:
            return process.wait(most)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()


def _save_last(name: str, folder: Path, out: Path, ended: int) -> None:
    """Save the input that ended the process of a reader. The input is the file that differs from
    the original."""
    from tests.fuzzing.readers import READERS

    reader = READERS[name]
    reader.write(folder / "valid")
    how = signal.Signals(-ended).name if ended < 0 else f"exit-{ended}"
    text = (folder / "told").read_text(errors="replace")[-2000:]
    pairs = zip(reader.files(folder / "valid"), reader.files(folder / "files"), strict=True)
    changed = [file for valid, file in pairs if valid.read_bytes() != file.read_bytes()]
    for file in changed or [folder / "told"]:  # without an input, this script has a fault
        save(out, name, file, f"{how}-{zlib.crc32(text.encode()):08x}")


def main() -> None:
    """Parse the arguments, fuzz, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("readers", nargs="*", help="readers to fuzz; all without any")
    parser.add_argument("--seconds", type=float, default=60.0, help="longest time for a reader")
    parser.add_argument("--executions", type=int, default=10**9, help="most inputs for a reader")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="readers fuzzed at the same time")
    parser.add_argument("--blind", action="store_true", help="do without atheris")
    parser.add_argument("--out", type=Path, default=Path("fuzzed"), help="folder of what is found")
    parser.add_argument("--child", dest="folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.folder:
        child(options)
        return
    from tests.fuzzing.readers import READERS

    options.blind = options.blind or find_spec("atheris") is None
    names: Sequence[str] = options.readers or list(READERS)
    if unknown := set(names) - READERS.keys():
        parser.error(f"unknown: {', '.join(sorted(unknown))}; readers are {', '.join(READERS)}")
    how = "from valid files alone" if options.blind else "guided by coverage"
    print(f"seed {options.seed}, {how}\n")
    print("| reader | inputs | refused | faults | slowest | memory |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    all_inputs = all_faults = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        found = pool.map(lambda name: fuzz(name, options), names)
        for name, figures in zip(names, found, strict=True):
            faults = len(list((options.out / name).glob("*.traceback")))
            all_inputs, all_faults = all_inputs + figures.executions, all_faults + faults
            slowest, memory = f"{1e3 * figures.slowest:.0f} ms", f"{figures.memory:.0f} MiB"
            counts = f"{figures.executions:,} | {figures.refused:,} | {faults}"
            print(f"| {name} | {counts} | {slowest} | {memory} |", flush=True)
    print(f"| all | {all_inputs:,} | | {all_faults} | | |")
    sys.exit(1 if all_faults else 0)


if __name__ == "__main__":
    main()
