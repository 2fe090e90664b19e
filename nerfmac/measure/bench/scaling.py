"""One model on ever more ranks: samples per second, and quality over seconds of training.

The ranks are processes on this machine, started one count after the other; or, within a job of
several ranks that something else has started, those of the job.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from math import floor
from pathlib import Path
from typing import Any

from nerfmac.backend import choose_device, current_device
from nerfmac.backend.machine import machine
from nerfmac.common import checks
from nerfmac.common.checks import InputError
from nerfmac.common.files import read_json, write_json
from nerfmac.config import Config
from nerfmac.measure.bench.quality import HeldOutViews, followed
from nerfmac.ranks import LostRankError, current_ranks, join, start_local
from nerfmac.run import Run
from nerfmac.scenes import Scene, load_scene
from nerfmac.scenes.options import DEFAULTS, SceneOptions
from nerfmac.training.goal import Goal

POINTS, VIEWS = 24, 4
"""Evaluations during a training, and held-out views of each."""


@dataclass(frozen=True)
class RankedTraining:
    """What so many ranks came to."""

    ranks: int
    backend: str
    rays: int  # of a step, of all ranks together, at the end
    steps: int
    samples_per_second: float  # of all ranks, over the second half of the training
    points: tuple[tuple[float, float], ...]  # seconds of training, dB of the held-out views
    is_alike: bool  # whether all ranks had the same parameters and cells at the end, bit for bit

    def seconds_to(self, psnr: float) -> float | None:
        """Seconds until the held-out views had so many dB, between points; None: they never had."""
        for (before, low), (after, high) in pairwise(((0.0, 0.0), *self.points)):
            if high >= psnr:
                return after - (after - before) * (high - psnr) / max(high - low, 1e-9)
        return None

    def to_json(self) -> dict[str, Any]:
        """All of it as JSON values."""
        return {**self.__dict__, "points": [list(point) for point in self.points]}


def table(found: Sequence[RankedTraining]) -> Iterator[str]:
    """A line for each number of ranks, for people."""
    goal = floor(min(max(psnr for _, psnr in each.points) for each in found))
    yield (
        f"{'ranks':>5}{'rays/step':>12}{'steps':>9}{'samples/s':>13}{'times':>8}"
        f"{'PSNR':>11}{f'to {goal} dB':>12}  alike"
    )
    for each in found:
        seconds = each.seconds_to(goal)
        times = each.samples_per_second / found[0].samples_per_second
        yield (
            f"{each.ranks:5}{each.rays:12}{each.steps:9}{each.samples_per_second:13.3g}"
            f"{times:8.2f}{each.points[-1][1]:8.2f} dB"
            f"{'never' if seconds is None else f'{seconds:.2f} s':>12}"
            f"  {'yes' if each.is_alike else 'NO'}"
        )


def measure_scaling(
    scene: Path,
    config: Config,
    options: SceneOptions = DEFAULTS,
    *,
    counts: Sequence[int],
    seconds: float,
    on_line: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Train on `scene` for `seconds` with each of the `counts` of ranks; return it as JSON values.

    `options` say how the scene is read.
    On an NVIDIA GPU ranks talk by NCCL, and each takes a GPU of its own; elsewhere by the ring.
    Raises `InputError` if the scene has no test views, or if a rank fails.
    """
    if current_ranks().size > 1:
        found = [follow(load_scene(scene, **vars(options)), config, seconds)]
    else:
        found = [_started(scene, config, options, count, seconds) for count in counts]
    if current_ranks().is_first:
        for line in table(found):
            on_line(line)
    about = {**machine(), "scene": str(scene), "preset": config.preset, "seconds": seconds}
    about |= {"exchange": asdict(config.ranks)}
    return {**about, "trainings": [each.to_json() for each in found]}


def follow(scene: Scene, config: Config, seconds: float) -> RankedTraining:
    """Train on all ranks of this job, each of which calls this, and follow the quality."""
    views, run = HeldOutViews(scene, VIEWS, config.train.blend), Run.begin(scene, config)
    ranks = run.trainer.ranks
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


def _started(
    scene: Path, config: Config, options: SceneOptions, count: int, seconds: float
) -> RankedTraining:
    """What `count` ranks on this machine come to, in processes of their own."""
    checks.number("ranks", count, low=1, whole=True)
    device = current_device()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        request, found = folder / "request.json", folder / "found.json"
        asked = {"config": config.to_json(), "scene": str(scene.resolve()), "device": device}
        write_json(request, asked | {"options": vars(options), "seconds": seconds})
        module = "nerfmac.measure.bench.scaling"
        command = [sys.executable, "-P", "-m", module, str(request), str(found)]
        started = start_local(
            command, count, folder, backend="nccl" if device == "cuda" else "ring"
        )
        try:
            while None in (codes := [each.poll() for each in started]) and not any(codes):
                time.sleep(0.1)
        finally:
            for each in started:
                each.kill()
        if any(codes):
            raise InputError(f"of {count} ranks one failed: their exit codes are {codes}")
        values = read_json(found)
    points = tuple((at, psnr) for at, psnr in values.pop("points"))
    return RankedTraining(**values, points=points)


def serve(request: Path, found: Path) -> None:
    """Train as one of the ranks that `measure_scaling` starts.

    The JSON file `request` says on what; the first rank writes what came of it to `found`.
    """
    asked = read_json(request)
    choose_device(asked["device"])
    ranks = join()
    scene = load_scene(asked["scene"], **asked["options"])
    training = follow(scene, Config.from_json(asked["config"]), asked["seconds"])
    if ranks.is_first:
        write_json(found, training.to_json())


if __name__ == "__main__":
    try:
        serve(Path(sys.argv[1]), Path(sys.argv[2]))
    except (InputError, LostRankError) as error:
        print(f"nerfmac: {error}", file=sys.stderr)
        sys.exit(2)
