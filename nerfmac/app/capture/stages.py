"""Execution of the stages of `colmap_process`, with progress and error messages."""

import shutil
import subprocess
import sys
from collections import deque
from pathlib import Path
from typing import Any

from nerfmac.app.capture import colmap_process
from nerfmac.common import InputError

FULL = ("No space left", "disk is full", "disk I/O error", "File too large", "Disk quota")
"""Phrases in COLMAP's log that indicate a full disk."""
ROOM = 2**20
"""Free disk space in bytes below which the disk counts as full. The log may then be incomplete."""
STEPS = {
    "frames": "selecting frames",
    "images": "writing images",
    "features": "extracting features",
    "matches": "matching",
    "mapping": "estimating cameras",
}
"""Text of the progress bar of each stage, in order. The first stage exists only for videos."""


def run_stage(stage: str, folder: Path, bar: Any) -> None:
    """Run a stage in a separate process, and update a progress bar.

    An interruption ends this process. If the stage is run again, it resumes from the stored
    results. The message of an error contains the last line of COLMAP's log.
    """
    # The stage is executed as a file, because importing the package would take an additional
    # second.
    command = [sys.executable, "-P", colmap_process.__file__, stage, str(folder)]
    log_path = folder / f"{stage}.log"
    with log_path.open("w", encoding="utf-8") as messages:
        # The stage runs in a separate process group, so that only this process receives Ctrl-C and
        # ends the stage.
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=messages, text=True, process_group=0
        )
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if line.strip().isdigit():
                    bar.update(int(line))
            code = process.wait()
        finally:
            process.kill()
            process.communicate()
    if code != 0:
        raise _failure(stage, log_path, code)


def _failure(stage: str, log_path: Path, code: int) -> InputError:
    with log_path.open(encoding="utf-8", errors="replace") as lines:
        last = [line.strip() for line in deque(lines, 40) if line.strip()]
    has_room = shutil.disk_usage(log_path.parent).free > ROOM
    if not has_room or any(message in line for message in FULL for line in last):
        return InputError(
            f"the disk of {log_path.parent} is full; free some space and run the command again"
        )
    reason = last[-1] if last else "no message"
    return InputError(f"COLMAP's stage {stage} failed with code {code}: {reason}; log: {log_path}")


def step_name(stage: str, *, of_video: bool) -> str:
    """Return the progress label of a stage, such as "3 of 4: matching". Stages that are not in
    `STEPS`, such as focal length trials, have the last number."""
    names = list(STEPS)[0 if of_video else 1 :]
    number = names.index(stage) + 1 if stage in names else len(names)
    return f"{number} of {len(names)}: {STEPS.get(stage, f'{STEPS[names[-1]]}, {stage}')}"
