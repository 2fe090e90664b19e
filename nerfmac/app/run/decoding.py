"""A run before its images are decoded, and the step from there to one that can be trained."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nerfmac.app.run.configuration import exposures_for_images
from nerfmac.app.scenes import Scene
from nerfmac.app.scenes.record import SceneRecord
from nerfmac.config import Config
from nerfmac.training.method import Method
from nerfmac.training.state import TrainState
from nerfmac.training.trainer import Trainer


def preview(config: Config, scene: Scene, method: Method) -> tuple[Trainer, TrainState]:
    """Return a trainer without images, and the state of `Trainer.preview`."""
    cameras = scene.cameras("train")
    trainer = Trainer(config, scene.bounds, method=method, cameras=cameras)
    return trainer, trainer.preview(cameras)


def decode_images(run: Any, *, progress: bool = True) -> Iterator[None]:
    """Decode the training images of a `Run`, one at each `next`, and give them to its trainer.

    A preview becomes the run before the first step, and is saved if the run has a folder. Does
    nothing if the trainer has the images. Raises `InputError` if there are none.
    """
    if run.trainer.has_views:
        return
    source, method = run.images(), run.trainer.method
    yield from source.decoding("train", progress=progress)
    views = source.views("train")
    if run.is_preview:
        run.config = exposures_for_images(run.config, views)
        run.scene = SceneRecord.of(source, views.mean_color())
    run.trainer = Trainer(run.config, run.scene.bounds, views, method)
    if not run.is_preview:
        return
    run.state, run.is_preview = run.trainer.init(), False
    if run.folder is not None:
        run.save(run.folder)
