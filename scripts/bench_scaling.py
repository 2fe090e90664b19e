"""Measure the samples per second and the PSNR of the same training on 1, 2, ... ranks.

    python scripts/bench_scaling.py 2 --scene SCENE --seconds 15 --json scaling.json

The ranks are processes on this machine. The numbers of ranks are measured one after the other.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import floor
from pathlib import Path
from typing import Any

from local_ranks import start_local
from model_curves import HeldOutViews, followed

from nerfmac.app.run import Run, config_of
from nerfmac.app.scenes import Scene, builtin_scene_path, load_scene
from nerfmac.backend import choose_device, current_device
from nerfmac.backend.machine import machine
from nerfmac.common import InputError, checks, read_json, write_json
from nerfmac.config import Config
from nerfmac.ranks import LostRankError, current_ranks, join
from nerfmac.training.goal import Goal

POINTS, VIEWS = 24, 4
"""Number of evaluations during a training, and number of held-out views per evaluation."""


@dataclass(frozen=True)
class RankedTraining:
    """Speed and quality of one training on several ranks."""

    ranks: int
    backend: str
    rays: int  # rays of the last step, all ranks together
    steps: int
    samples_per_second: float  # all ranks together, over the second half of the training
    points: tuple[tuple[float, float], ...]  # training seconds, PSNR of the held-out views in dB
    is_alike: bool  # all ranks ended with bit-identical parameters and occupancy grids

    def seconds_to(self, psnr: float) -> float | None:
        """Return the interpolated training time in seconds until the PSNR reached `psnr` dB, or
        None if the PSNR was always lower."""
        for (before, low), (after, high) in pairwise(((0.0, 0.0), *self.points)):
            if high >= psnr:
                return after - (after - before) * (high - psnr) / max(high - low, 1e-9)
        return None

    def to_json(self) -> dict[str, Any]:
        """Return the record as JSON values."""
        return {**self.__dict__, "points": [list(point) for point in self.points]}


def table(trainings: Sequence[RankedTraining]) -> Iterator[str]:
    """Return the table to print, with a line for each training."""
    goal = floor(min(max(psnr for _, psnr in training.points) for training in trainings))
    yield (
        f"{'ranks':>5}{'rays/step':>12}{'steps':>9}{'samples/s':>13}{'speed-up':>10}"
        f"{'PSNR':>11}{f'to {goal} dB':>12}  ranks equal"
    )
    for training in trainings:
        seconds = training.seconds_to(goal)
        speed_up = training.samples_per_second / trainings[0].samples_per_second
        yield (
            f"{training.ranks:5}{training.rays:12}{training.steps:9}"
            f"{training.samples_per_second:13.3g}{speed_up:10.2f}{training.points[-1][1]:8.2f} dB"
            f"{'never' if seconds is None else f'{seconds:.2f} s':>12}"
            f"  {'yes' if training.is_alike else 'NO'}"
        )


def measure_scaling(
    scene: Path, config: Config, *, counts: Sequence[int], seconds: float
) -> dict[str, Any]:
    """Train on `scene` for `seconds` seconds with each number of ranks in `counts`. Return the
    measurements as JSON values.

    On NVIDIA GPUs, each rank uses one GPU, and ranks communicate with NCCL. On other devices, ranks
    communicate with the ring backend of MLX. Raises `InputError` if the scene has no test views, or
    if a rank fails.
    """
    trainings = [_started(scene, config, count, seconds) for count in counts]
    for line in table(trainings):
        print(line)
    about = {**machine(), "scene": str(scene), "preset": config.preset, "seconds": seconds}
    return {**about, "trainings": [training.to_json() for training in trainings]}


def follow(scene: Scene, config: Config, seconds: float) -> RankedTraining:
    """Train on all ranks of this job and evaluate the run during the training. Every rank must call
    this function."""
    views, run = HeldOutViews(scene, VIEWS, config.train.blend), Run.begin(scene, config)
    ranks = current_ranks()
    points: list[tuple[float, float]] = []
    samples = since = before = 0.0
    for report, is_due in followed(run, Goal(seconds=seconds), POINTS):
        now = run.state.train_seconds
        if now > seconds / 2:
            samples += report.samples_per_second * (now - before)
            since += now - before
        before = now
        if ranks.is_first and is_due:
            points.append((now, views.psnr_of(run)))
    return RankedTraining(
        ranks=ranks.size,
        backend=ranks.backend,
        rays=run.state.rays * ranks.size,
        steps=run.state.step,
        samples_per_second=samples / max(since, 1e-9),
        points=tuple(points),
        is_alike=ranks.alike(run.state.parameters | run.state.sampling),
    )


def _started(scene: Path, config: Config, count: int, seconds: float) -> RankedTraining:
    """Train on `count` ranks on this machine, each in a separate process."""
    checks.number("ranks", count, low=1, whole=True)
    device = current_device()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        request, result = folder / "request.json", folder / "result.json"
        values = {"config": config.to_json(), "scene": str(scene.resolve()), "device": device}
        write_json(request, values | {"seconds": seconds})
        command = [sys.executable, __file__, "--rank", str(request), str(result)]
        started = start_local(
            command, count, folder, backend="nccl" if device == "cuda" else "ring"
        )
        try:
            while None in (codes := [rank.poll() for rank in started]) and not any(codes):
                time.sleep(0.1)
        finally:
            for rank in started:
                rank.kill()
        if any(codes):
            raise InputError(f"a rank of {count} failed: the exit codes are {codes}")
        values = read_json(result)
    points = tuple((at, psnr) for at, psnr in values.pop("points"))
    return RankedTraining(**values, points=points)


def serve(request: Path, result: Path) -> None:
    """Train as one of the ranks that `measure_scaling` starts.

    The JSON file `request` contains the scene, the configuration, and the training time. The first
    rank writes its `RankedTraining` to `result`.
    """
    values = read_json(request)
    choose_device(values["device"])
    ranks = join()
    scene = load_scene(values["scene"])
    training = follow(scene, Config.from_json(values["config"]), values["seconds"])
    if ranks.is_first:
        write_json(result, training.to_json())


def main() -> None:
    """Train on each number of ranks, print the table, and write the JSON file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("ranks", type=int, help="largest number of ranks")
    parser.add_argument("--scene", type=Path, default=None, help="by default the built-in scene")
    parser.add_argument("--seconds", type=float, default=15.0, help="training time for each number")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--preset", default="auto")
    parser.add_argument("--json", type=Path, default=None, help="file for the figures")
    arguments = parser.parse_args()
    choose_device(arguments.device)
    figures = measure_scaling(
        arguments.scene or builtin_scene_path(),
        config_of(arguments.preset),
        counts=range(1, arguments.ranks + 1),
        seconds=arguments.seconds,
    )
    if arguments.json:
        write_json(arguments.json, figures)


if __name__ == "__main__":
    try:
        if sys.argv[1:2] == ["--rank"]:
            serve(Path(sys.argv[2]), Path(sys.argv[3]))
        else:
            main()
    except (InputError, LostRankError) as error:
        print(f"nerfmac: {error}", file=sys.stderr)
        sys.exit(2)
