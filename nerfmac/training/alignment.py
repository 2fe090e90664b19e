"""Test cameras in the place that refined training cameras leave them, so that pictures compare.

Refined poses drift together: all may turn, shift and shrink, and the field with them, and nothing
in the pictures tells. And a test camera's given pose is as wrong as a training camera's was. So, as
usual (BARF, Lin et al. 2021, section 4.1): test poses first move as the training poses did in the
mean, by a similarity (Procrustes); then each is refined on its own picture, while the field stays
as it is. Figures then say how well the field is known, not how well the test cameras are.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import mlx.core as mx
import numpy as np
import numpy.typing as npt
from tqdm.auto import tqdm

from nerfmac.config import OptimiserConfig, RanksConfig, RefineConfig
from nerfmac.geometry.cameras import Cameras
from nerfmac.ranks import Ranks
from nerfmac.scenes import Views
from nerfmac.scenes.prefetch import delayed_progress
from nerfmac.training.corrections import POSES, Corrections
from nerfmac.training.method import Parts
from nerfmac.training.optimiser import OwnRate, StepNumbers, Updated, adam, no_moments, step_numbers
from nerfmac.training.state import TrainState
from nerfmac.training.step import Kind, Step
from nerfmac.training.trainer import Trainer

log = logging.getLogger("nerfmac")

Poses = npt.NDArray[np.float64]

STEPS = 200
RATE = 1e-3
"""Learning rate of the first step; that of the last one is a hundredth of it. In all a camera can
turn by 2.5 degrees: test cameras are as wrong as training cameras were."""
RAYS = 4096
"""Of a step, at most."""


def moved_along(poses: Poses, given: Poses, refined: Poses) -> Poses:
    """The `poses` (m, 3, 4) moved by the similarity that best takes `given` to `refined` (n, 3, 4).

    Its rotation is the mean one of the cameras, which is there for any number of them; its scale
    and shift are those of the least squares between the places.
    """
    u, _, v = np.linalg.svd(np.einsum("nij,nkj->ik", refined[:, :, :3], given[:, :, :3]))
    turn = u @ np.diag([1.0, 1.0, np.linalg.det(u @ v)]) @ v
    before, after = given[:, :, 3] @ turn.T, refined[:, :, 3]
    around, centre = before.mean(axis=0), after.mean(axis=0)
    spread = float(np.square(before - around).sum())
    scale = float(((after - centre) * (before - around)).sum()) / spread if spread > 1e-12 else 1.0
    place = scale * (poses[:, :, 3] @ turn.T - around) + centre
    return np.concatenate([turn @ poses[:, :, :3], place[:, :, None]], axis=2)


def aligned(
    trainer: Trainer, state: TrainState, views: Views, is_trained: bool, *, progress: bool = True
) -> Views:
    """The `views`, their cameras where the field in `state` has them, their lenses as it has them.

    `is_trained`: they are the training views. `progress`: show a bar if it takes more than a second
    or two.
    """
    corrections = trainer.corrections
    refined = corrections.cameras(state.average)
    if is_trained or corrections.given is None:
        return replace(views, cameras=refined)
    views = replace(views, cameras=corrections.with_lenses(views.cameras, state.average))
    if not corrections.config.poses:
        return views
    log.info(
        "%d cameras are moved as training moved its own, then refined each on its picture",
        len(views.names),
    )
    moved = moved_views(views, corrections.given, refined)
    return refine_alone(trainer, state, moved, progress=progress)


def refine_alone(
    trainer: Trainer, state: TrainState, views: Views, *, progress: bool = True
) -> Views:
    """The `views`, each camera refined on its picture by what the field in `state` shows."""
    corrections = Corrections(RefineConfig(poses=True), views.cameras)
    config, sampling = trainer.config.train, state.sampling
    parts = Parts(trainer.field, trainer.sampler, trainer.loss)
    step = Step(config, parts, views, corrections, Ranks(), RanksConfig())
    parameters = trainer.corrections.of_field(state.average)
    optimiser, moving = OptimiserConfig(), Kind(moves=True)
    scale, unscale = mx.array(config.loss_scale), mx.array([1.0 / config.loss_scale])
    rays, seed = min(RAYS, config.most_rays), trainer.config.seed

    @mx.compile
    def update(now: Any, key: mx.array, numbers: Any) -> Updated:
        poses, whole = Updated(*now).parameters, mx.array(1.0)
        loss_of = step.losses(rays, moving, parameters | poses, sampling, key, whole, scale)
        gradients = mx.grad(lambda moved: loss_of(parameters | moved)[0])(poses)
        return adam(Updated(*now), gradients, StepNumbers(*numbers), (), unscale)

    poses = corrections.init()
    now = Updated(poses, no_moments(poses))
    for index in tqdm(range(STEPS), "cameras", **delayed_progress(progress)):
        own = {POSES: OwnRate(RATE * 0.01 ** (index / STEPS), 0.0)}
        numbers = step_numbers(index + 1, 0.0, optimiser, own)
        now = Updated(*update(now, mx.array([seed, index], mx.uint32), numbers))
        mx.eval(now.parameters)
    return replace(views, cameras=corrections.cameras(now.parameters))


def moved_views(views: Views, given: Cameras, refined: Cameras) -> Views:
    """The `views`, moved as the training cameras did from `given` to `refined`."""
    each = (np.array(cameras.poses, np.float64) for cameras in (views.cameras, given, refined))
    poses = mx.array(moved_along(*each).astype(np.float32))
    return replace(views, cameras=replace(views.cameras, poses=poses))
