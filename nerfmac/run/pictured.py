"""`Pictured`: what a run shows, one picture, an orbit's cameras, and views of a split compared."""

from __future__ import annotations

import time
from typing import Any

from tqdm.auto import tqdm

from nerfmac.config import Config
from nerfmac.geometry.cameras import Camera
from nerfmac.paths import orbit
from nerfmac.refine.report import refinement_report
from nerfmac.rendering.evaluation import ViewQuality, evaluate
from nerfmac.rendering.gaze import look_at_from_depth
from nerfmac.rendering.perceptual import Lpips
from nerfmac.rendering.renderer import Rendered, Renderer
from nerfmac.scenes import Scene, Views, read_again
from nerfmac.scenes.record import SceneRecord
from nerfmac.training.held_out import refined_views
from nerfmac.training.state import TrainState
from nerfmac.training.trainer import Trainer


class Pictured:
    """The half of a `Run` that looks at its field; the other half trains and saves it."""

    config: Config
    scene: SceneRecord
    trainer: Trainer
    state: TrainState
    source: Scene | None
    _aligned: dict[tuple[str, int], Views]

    def renderer(self) -> Renderer:
        """A renderer of the field as it is now."""
        return self.trainer.renderer(self.state)

    def render(
        self, camera: Camera, background: tuple[float, float, float] = (1.0, 1.0, 1.0)
    ) -> Rendered:
        """One picture. To render many, call `renderer()` once and use that."""
        return self.renderer().render(camera, background)

    def orbit(self, frames: int, size: tuple[int, int] | None = None) -> list[Camera]:
        """`frames` cameras on a closed path around what the training cameras look at."""
        cameras, up = self.scene.cameras, self.scene.up
        centre = look_at_from_depth(self.renderer(), cameras, up)
        return orbit(cameras, up=up, frames=frames, size=size, centre=centre)

    def evaluate(
        self,
        split: str = "test",
        background: str = "white",
        *,
        seconds: float | None = None,
        progress: bool = True,
        lpips: Lpips | None = None,
    ) -> list[ViewQuality]:
        """PSNR, SSIM and `lpips` if given, of a split's views, in its order, from their pictures.

        Of all views, or with `seconds` of as many as fit into that time, spread evenly: at least of
        one, and of that one the middle rows alone if the whole does not fit. Test cameras are
        aligned with refined ones before, as `views` says.
        """
        start, blend = time.perf_counter(), self.config.train.blend
        views = self.views(split, progress=progress)
        seconds = seconds and seconds - (time.perf_counter() - start)
        given = views, background, blend
        outcomes = evaluate(self.renderer(), *given, seconds=seconds, lpips=lpips)
        bar = tqdm(outcomes, f"{split} views", len(views.names), disable=not progress, unit="view")
        return sorted(bar, key=lambda view: views.names.index(view.name))

    @property
    def cameras(self) -> tuple[Camera, ...]:
        """The training cameras, with their poses and lenses as they are refined by now."""
        if not self.config.refine.cameras:
            return self.scene.cameras
        refined = self.trainer.refinement.cameras(self.state.average)
        return tuple(refined[index] for index in range(len(refined)))

    @property
    def refined(self) -> dict[str, Any]:
        """How far refinement changed the training views, as `refinement_report` says."""
        return refinement_report(self.trainer.refinement, self.state.average)

    def views(self, split: str, *, progress: bool = True) -> Views:
        """A split's views, to be compared with what the field shows; raises `InputError`.

        Where poses or lenses are refined their cameras are too: training cameras as training
        refined them, others aligned with these (`nerfmac.training.held_out`). `progress`: show
        bars if it takes more than a second or two.
        """
        views, key = self.pictures().views(split, progress=progress), (split, self.state.step)
        if self.config.refine.cameras and key not in self._aligned:
            is_trained = split == "train"
            given = self.trainer, self.state, views
            refined = refined_views(*given, is_trained=is_trained, progress=progress)
            self._aligned = {key: refined}
        return self._aligned.get(key, views)

    def pictures(self) -> Scene:
        """The scene with its pictures; reads it if it is not loaded. Raises `InputError`."""
        if self.source is None:
            self.source = read_again(self.scene)
        return self.source
