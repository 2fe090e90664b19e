"""Kill training, video, export, and capture processes at random times, and check for lost data.

    python scripts/crash.py [--kills N] [--jobs train video export capture] [--seed S]

A job first runs undisturbed. Then the job is started and killed with SIGKILL N times (N/4 times for
a video, an export, and a capture), at different times between its first file and its end. After
each kill, the job is repeated. Training resumes from its checkpoint. If it has not saved a
checkpoint yet, training starts again. A job survives if its result equals the undisturbed result
bit for bit, and no other file remains. Training saves a checkpoint at every report. The result of a
capture depends on the timing of its threads, so only the number of its cameras is compared.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import numpy as np
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from nerfmac.app.run import Run
from nerfmac.backend import choose_device
from tests.app.capture import corner
from tests.scene_factory import FLAGS, write_scene

MAIN = """import sys
from unittest.mock import patch
from nerfmac.app.cli import main
with patch("nerfmac.app.run.training.SAVE_SECONDS", 0.0):  # Fails if there is no such constant.
    main(sys.argv[1:])"""

STEPS = 400
PATIENCE = 120.0  # maximum duration of a job in seconds


class Job(NamedTuple):
    """Command that writes to a separate folder."""

    name: str
    command: Callable[[Path], list[object]]  # folder -> arguments of nerfmac
    result: Callable[[Path], int]  # folder -> a number that identifies the result


class Undisturbed(NamedTuple):
    """Result and duration of a job that was not interrupted."""

    result: int
    files: set[str]
    seconds: float  # from its first file to its end


def jobs(home: Path) -> list[Job]:
    """Create the jobs, and their scene, run, and photos in the folder `home`."""
    scene, run, photos = write_scene(home / "balls"), home / "run", home / "photos"
    words = ["train", scene, *FLAGS, "--steps", 40, "--no-video", "--out", run]
    start(words).communicate(timeout=PATIENCE)
    photos.mkdir()
    for index, camera in enumerate(corner.cameras(6)):
        Image.fromarray(corner.seen(camera)).save(photos / f"{index}.png")

    def train(folder: Path) -> list[object]:
        out = folder / "run"
        words = ["train", "--steps", STEPS, "--no-video", "--out", out]
        if (out / "checkpoint.safetensors").is_file():
            return [*words, "--resume", "--device", "cpu"]
        return [*words, scene, *FLAGS]

    def video(folder: Path) -> list[object]:
        words = ["render", run, "--frames", 90, "--device", "cpu", "--resume", "--overwrite"]
        return [*words, "--out", folder / "video.mp4"]

    def export(folder: Path) -> list[object]:
        return [
            "export",
            run,
            folder / "mesh.ply",
            "--threshold",
            0.05,
            "--resolution",
            80,
            "--device",
            "cpu",
        ]

    def capture(folder: Path) -> list[object]:
        words = ["capture", photos, "--focal-35mm", 28, "--matching", "exhaustive"]
        return [*words, "--out", folder / "scene"]

    return [
        Job("train", train, lambda folder: parameters_crc(folder / "run")),
        Job("video", video, lambda folder: crc32((folder / "video.mp4").read_bytes())),
        Job("export", export, lambda folder: crc32((folder / "mesh.ply").read_bytes())),
        Job("capture", capture, lambda folder: number_of_cameras(folder / "scene")),
    ]


def parameters_crc(run: Path) -> int:
    """Return the CRC-32 of all parameters of the run in a folder."""
    choose_device("cpu")
    crc = 0
    for name, values in sorted(Run.load(run).state.parameters.items()):
        crc = crc32(np.ascontiguousarray(values).data, crc32(name.encode(), crc))
    return crc


def number_of_cameras(scene: Path) -> int:
    """Return the number of cameras of a captured scene."""
    return len(json.loads((scene / "transforms.json").read_text())["frames"])


def start(words: list[object]) -> subprocess.Popen[bytes]:
    """Start `nerfmac` with the arguments `words`, and redirect its standard error to a pipe."""
    command = [sys.executable, "-c", MAIN, *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def files_in(folder: Path) -> set[str]:
    """Return the paths of all files in `folder`, relative to `folder`."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def started(job: Job, folder: Path) -> tuple[subprocess.Popen[bytes], float]:
    """Start a job, and return its process and the time when its first file appeared."""
    process, begin = start(job.command(folder)), time.monotonic()
    while process.poll() is None and not any(folder.iterdir()):
        if time.monotonic() - begin > PATIENCE:
            process.kill()
        time.sleep(0.001)
    return process, time.monotonic()


def undisturbed(job: Job, folder: Path) -> Undisturbed:
    """Run the job once in the empty `folder`."""
    process, begin = started(job, folder)
    _, complaint = process.communicate(timeout=PATIENCE)
    if process.returncode:
        raise SystemExit(f"{job.name} fails undisturbed: {complaint.decode()}")
    return Undisturbed(job.result(folder), files_in(folder), time.monotonic() - begin)


def killed(job: Job, folder: Path, seconds: float) -> bool:
    """Run the job and kill it `seconds` seconds after its first file appeared. Return False if the
    job ended earlier."""
    process, begin = started(job, folder)
    time.sleep(max(seconds - (time.monotonic() - begin), 0.0))
    is_running = process.poll() is None
    process.kill()
    process.communicate()
    return is_running


def lost(job: Job, folder: Path, whole: Undisturbed) -> str | None:
    """Repeat the job that was killed in `folder`. Return a description of the lost data, or None if
    no data was lost."""
    process = start(job.command(folder))
    _, complaint = process.communicate(timeout=PATIENCE)
    if process.returncode:
        return f"exit code {process.returncode}: {complaint.decode().strip()[-300:]}"
    if (result := job.result(folder)) != whole.result:
        return f"the result is {result:08x}, undisturbed {whole.result:08x}"
    if (files := files_in(folder)) != whole.files:
        return f"left or missing: {sorted(files ^ whole.files)}"
    return None


def main() -> None:
    """Print a row for each job with the number of kills, the number of kills before the first
    checkpoint, and the number of losses."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--jobs", nargs="+", default=["train", "video", "export", "capture"])
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    draw = random.Random(arguments.seed)
    print(f"seed {arguments.seed}")
    with tempfile.TemporaryDirectory(prefix="crash-") as scratch:
        home = Path(scratch)
        for job in jobs(home):
            if job.name not in arguments.jobs:
                continue
            (home / job.name).mkdir()
            whole = undisturbed(job, home / job.name)
            kills, losses = arguments.kills if job.name == "train" else arguments.kills // 4, 0
            done = 0
            while done < kills:
                with tempfile.TemporaryDirectory(dir=home) as folder:
                    moment = draw.uniform(0.0, whole.seconds)
                    if not killed(job, Path(folder), moment):
                        continue
                    done += 1
                    if fault := lost(job, Path(folder), whole):
                        losses += 1
                        print(f"{job.name}, killed after {moment:.3f} s: {fault}", flush=True)
            print(f"{job.name}: {kills} kills in {whole.seconds:.1f} s, {losses} lost", flush=True)


if __name__ == "__main__":
    main()
