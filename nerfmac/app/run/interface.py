"""`RunInterface`: the members of a `Run` that its helper modules use.

`Run` imports these modules, so they cannot import `Run`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Protocol

from nerfmac.app.scenes import Scene
from nerfmac.app.scenes.record import SceneRecord
from nerfmac.config import Config
from nerfmac.geometry.views import Views
from nerfmac.rendering.renderer import Renderer
from nerfmac.training.goal import Goal, Report
from nerfmac.training.history import History
from nerfmac.training.state import TrainState
from nerfmac.training.trainer import Trainer


class RunInterface(Protocol):
    """Interface of a run. `Run` documents its members."""

    config: Config
    scene: SceneRecord
    trainer: Trainer
    state: TrainState
    history: History
    folder: Path | None
    rates: tuple[float, float]
    is_preview: bool
    is_checked: bool
    last_good: TrainState | None
    aligned: dict[tuple[str, int], Views]

    def fit(self, goal: Goal) -> Generator[Report]:
        """See `Run.fit`."""

    def prepare(self) -> Iterator[None]:
        """See `Run.prepare`."""

    def save(self, folder: str | Path) -> None:
        """See `Run.save`."""

    def save_checkpoint(self, folder: Path) -> None:
        """See `Run.save_checkpoint`."""

    def images(self) -> Scene:
        """See `Run.images`."""

    def views(self, split: str, *, progress: bool = True) -> Views:
        """See `Run.views`."""

    def renderer(self) -> Renderer:
        """See `Run.renderer`."""
