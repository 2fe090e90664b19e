"""Run nerfmac for a long time, and measure leaks of memory, threads, processes, and open files, and
the change in speed.

    python scripts/soak.py [--parts train viewers frames captures] [--short] [--seed S]

    train     100,000 steps of a small field
    viewers   300 viewers of one run, each opened, sent one image, and closed
    frames    5,000 images of 96x72 pixels, from cameras drawn at random
    captures  100 captures of six images

Each part runs in a separate process. The first tenth of its units is a warm-up that builds kernels
and caches. For the other units, the table shows the slope of the resident memory, the number of new
threads, processes, and open files, and the speed of the last tenth divided by the speed of the
first. The standard error of the slope assumes that the deviations of the samples are independent.
`--short` runs a tenth of each.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import psutil
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from nerfmac.app.capture import capture_scene
from nerfmac.app.run import Run, Training, resume
from nerfmac.app.scenes import Scene, load_scene
from nerfmac.app.viewer import Viewer
from nerfmac.backend import choose_device
from nerfmac.common.files import read_json, write_json
from nerfmac.config import override
from nerfmac.config.scenes import CaptureOptions
from nerfmac.geometry.cameras import Camera
from nerfmac.training.goal import Goal
from tests.app.capture import corner
from tests.scene_factory import COARSE, CONFIG, write_scene

UNITS = {"train": 100_000, "viewers": 300, "frames": 5_000, "captures": 100}
SAMPLES = 100
"""Approximate number of samples of a part."""
PATIENCE = 60.0  # maximum time in seconds until a viewer sends an image
FIRST_PAGE = {"kind": "ready", "page": "first", "width": 48, "height": 32, "warps": False}


class Sample(NamedTuple):
    """Resources of a process after some units."""

    units: int
    seconds: float
    megabytes: float  # resident
    threads: int
    processes: int
    files: int


class Row(NamedTuple):
    """Leaked resources of a part after its warm-up."""

    units: int
    slope: float  # MB per 1000 units
    slope_error: float
    threads: int
    processes: int
    files: int
    speed: float  # of the last tenth, as a multiple of the first one's


def sample(units: int) -> Sample:
    """Return the current resources of this process."""
    process = psutil.Process()
    counts = process.num_threads(), len(process.children(recursive=True)), process.num_fds()
    return Sample(units, time.perf_counter(), process.memory_info().rss / 1e6, *counts)


def row(samples: list[Sample]) -> Row:
    """Compute the measurements of a part from all of its samples."""
    kept = samples[len(samples) // 10 :]
    units, megabytes = (np.array([s[i] for s in kept], float) for i in (0, 2))
    centered = units - units.mean()
    slope = centered @ megabytes / (centered @ centered)
    rest = megabytes - megabytes.mean() - slope * centered
    error = np.sqrt(rest @ rest / (len(kept) - 2) / (centered @ centered))
    first, last = kept[0], kept[-1]
    threads, processes, files = (int(last[i] - first[i]) for i in (3, 4, 5))
    tenth = max(len(kept) // 10, 1)
    speed = _speed(kept[-1 - tenth :]) / _speed(kept[: 1 + tenth])
    slope, error = float(1000.0 * slope), float(1000.0 * error)
    return Row(last.units, slope, error, threads, processes, files, speed)


def _speed(samples: list[Sample]) -> float:
    return (samples[-1].units - samples[0].units) / (samples[-1].seconds - samples[0].seconds)


def train(scene: Scene, count: int, _draw: np.random.Generator) -> Iterator[int]:
    """Train `count` steps, and yield the number of steps so far."""
    config = override(CONFIG, train={"steps": count})
    for report in Training(Run.begin(scene, config, progress=False)).fit(Goal(steps=count)):
        yield report.state.step


def viewers(scene: Scene, count: int, _draw: np.random.Generator) -> Iterator[int]:
    """Open and close `count` viewers, and yield the number of viewers so far."""
    run = _trained(scene)
    for number in range(count):
        viewer, has_image = Viewer(run), threading.Event()

        def hear(
            content: dict[str, object], _buffers: object = None, seen: threading.Event = has_image
        ) -> None:
            if content["kind"] == "frame":
                seen.set()

        viewer._session.send = hear
        viewer._loop.post(FIRST_PAGE)
        if not has_image.wait(PATIENCE):
            raise SystemExit(f"viewer {number} sends no image")
        viewer.close()
        yield number + 1


def frames(scene: Scene, count: int, draw: np.random.Generator) -> Iterator[int]:
    """Render `count` images, and yield the number of images so far."""
    run = _trained(scene)
    renderer, views = run.renderer(), run.scene.cameras("train")
    for number in range(count):
        one, other = (views[index] for index in draw.choice(len(views), 2, replace=False))
        eye = one.pose[:, 3] + draw.random() * (other.pose[:, 3] - one.pose[:, 3])
        lens = one.lens.scaled(96, 72)
        renderer.render(Camera.look_at(eye, draw.normal(0.0, 0.1, 3), (0, 0, 1), lens))
        yield number + 1


def captures(_scene: Scene, count: int, _draw: np.random.Generator) -> Iterator[int]:
    """Capture the same six images `count` times, and yield the number of captures so far."""
    with tempfile.TemporaryDirectory(prefix="soak-") as scratch:
        photos = Path(scratch, "photos")
        photos.mkdir()
        for index, camera in enumerate(corner.cameras(6)):
            Image.fromarray(corner.seen(camera)).save(photos / f"{index}.png")
        for number in range(count):
            with tempfile.TemporaryDirectory(dir=scratch) as folder:
                out = Path(folder, "scene")
                options = CaptureOptions(matching="exhaustive", focal_35mm=28)
                capture_scene(photos, out, options, progress=False)
            yield number + 1


def _trained(scene: Scene) -> Run:
    run = Run.begin(scene, COARSE, progress=False)
    return resume(run, Goal(steps=100), progress=False)


PARTS: dict[str, Callable[[Scene, int, np.random.Generator], Iterator[int]]] = {
    "train": train,
    "viewers": viewers,
    "frames": frames,
    "captures": captures,
}


def soaked(part: str, count: int, seed: int) -> Row:
    """Run `count` units of a part in this process."""
    choose_device("cpu")
    samples, due = [], 0
    with tempfile.TemporaryDirectory(prefix="soak-") as scratch:
        scene = load_scene(write_scene(Path(scratch, "balls")))
        for done in PARTS[part](scene, count, np.random.default_rng(seed)):
            if done >= due:
                samples.append(sample(done))
                due = done + max(count // SAMPLES, 1)
    return row(samples)


def in_a_process(part: str, count: int, seed: int) -> Row:
    """Run `count` units of a part in a separate process."""
    with tempfile.TemporaryDirectory(prefix="soak-") as scratch:
        file = Path(scratch, "row.json")
        words = [part, "--count", count, "--seed", seed, "--json", file]
        command = [sys.executable, __file__, "--parts", *map(str, words)]
        subprocess.run(command, check=True, env={**os.environ, "TMPDIR": scratch})
        return Row(*read_json(file))


def main() -> None:
    """Print the table. With --json, run a single part in this process and write its row to the
    file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", choices=UNITS, default=list(UNITS))
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if arguments.json:
        write_json(arguments.json, soaked(arguments.parts[0], arguments.count, arguments.seed))
        return
    print(f"seed {arguments.seed}")
    print("| part | units | MB per 1000 units | threads | processes | files | speed |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for part in arguments.parts:
        count = arguments.count or UNITS[part] // (10 if arguments.short else 1)
        done = in_a_process(part, count, arguments.seed)
        slope = f"{done.slope:.2g} ± {done.slope_error:.1g}"
        counts = f"{done.threads:+} | {done.processes:+} | {done.files:+}"
        print(f"| {part} | {done.units} | {slope} | {counts} | {done.speed:.2f} |", flush=True)


if __name__ == "__main__":
    main()
