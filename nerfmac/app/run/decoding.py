"""Creation of runs without decoded images, and decoding of the images before training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nerfmac.app.run.configuration import exposures_for_images, surface_losses_for_views
from nerfmac.app.run.interface import RunInterface
from nerfmac.app.scenes import Scene
from nerfmac.app.scenes.record import SceneRecord
from nerfmac.common import checks
from nerfmac.common.checks import InputError
from nerfmac.config import REFINED, Config, override
from nerfmac.training.method import Method
from nerfmac.training.state import TrainState
from nerfmac.training.trainer import Trainer


def preview(config: Config, scene: Scene, method: Method) -> tuple[Trainer, TrainState]:
    """Create a trainer without images, and the initial training state.

    Args:
        config: Configuration of the run.
        scene: Scene to train on.
        method: Method to train with.

    Returns:
        The trainer, and the state from `Trainer.preview`.
    """
    cameras = scene.cameras("train")
    trainer = Trainer(config, scene.bounds, method=method, cameras=cameras)
    return trainer, trainer.preview(cameras)


def decode_images(run: RunInterface, *, progress: bool = True) -> Iterator[None]:
    """Decode the training images of a run and pass them to its trainer.

    If the trainer already has images, the function has no effect. If `run.is_preview` is True, the
    run receives a new initial state and, if it has a folder, is saved there.

    Args:
        run: Run with the scene.
        progress: Whether to show a progress bar.

    Yields:
        None, after each image.

    Raises:
        InputError: If the images cannot be read.
    """
    if run.trainer.has_views:
        return
    source, method = run.images(), run.trainer.method
    yield from source.decoding("train", progress=progress)
    views = source.views("train")
    if run.is_preview:
        run.config = surface_losses_for_views(exposures_for_images(run.config, views), views)
        run.scene = SceneRecord.of(source, views.mean_color())
    run.trainer = Trainer(run.config, run.scene.bounds, views, method)
    if not run.is_preview:
        return
    run.state, run.is_preview = run.trainer.init(), False
    if run.folder is not None:
        run.save(run.folder)


def change_refinement(run: RunInterface, switches: Mapping[str, bool]) -> None:
    """Enable or disable refinements of a run before its first step, and decode its images.

    Args:
        run: Run before its first step.
        switches: Whether to enable each refinement, keyed by its name. Other refinements are not
            changed.

    Raises:
        InputError: If a name is unknown, the run has been trained, or the images cannot be read.
    """
    if run.state.step:
        raise InputError(
            f"the run has already been trained for {run.state.step} steps; refinement can be "
            "changed only before the first step"
        )
    for name in switches:
        checks.choice("correction", name, REFINED)
    run.config, run.is_preview = override(run.config, refine=switches), True
    run.trainer = run.trainer.without_views(run.scene.cameras)
    for _ in decode_images(run):
        pass
