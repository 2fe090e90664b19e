"""The bench's door to training: whatever it times or follows is trained by a `Run`."""

from __future__ import annotations

from collections.abc import Iterator

from nerfmac.config import Config
from nerfmac.run import Run
from nerfmac.scenes import Scene
from nerfmac.training.trainer import Goal, Report


def begin(scene: Scene, config: Config) -> Run:
    """A run on `scene`'s training views, compiled: no compiling is left for its training time."""
    run = Run.begin(scene, config)
    run.build_seconds += run.trainer.compile(run.state)
    return run


def reports(run: Run, goal: Goal) -> Iterator[Report]:
    """Train `run` on to `goal`; its state is that of the last report. Raises `DivergedError`."""
    for report in run.trainer.train(run.state, goal):
        run.state = report.state
        yield report
