"""Alignment of held-out cameras with a field after the training cameras have been refined.

The initial poses of held-out cameras have errors of the same size as the training poses before
refinement. As in BARF (Lin et al. 2021, section 4.1), the held-out poses are first moved by the
similarity transform that best maps the initial to the refined training cameras. Then each pose is
optimized on its own image while the field is fixed. Metrics therefore measure the quality of the
field, not of the poses.
"""

import logging
from dataclasses import replace

import mlx.core as mx
import numpy as np
from tqdm.auto import tqdm

from nerfmac.backend import compiled_with_records
from nerfmac.common import delayed_progress
from nerfmac.config import OptimizerConfig, ParameterGroup, RefineConfig
from nerfmac.fields.field import Parameters
from nerfmac.geometry import Views
from nerfmac.ops.penalty import PenaltyWeights
from nerfmac.ranks import ALONE
from nerfmac.refine.refinement import POSES, CameraRefinement, align_cameras
from nerfmac.training import optimizer
from nerfmac.training.model import Model
from nerfmac.training.priors import Priors
from nerfmac.training.state import TrainState
from nerfmac.training.step import Step, step_values, unpacked

log = logging.getLogger("nerfmac")

STEPS = 200
RATE = 1e-3
"""Learning rate of the first step, which decays to one hundredth of this value. The learning rate
and its decay limit the total rotation of a camera to about 2.5 degrees, the expected error of
training cameras."""
MAX_RAYS = 4096
"""Maximum number of rays in a pose optimization step."""


def refined_views(
    model: Model, state: TrainState, views: Views, *, is_trained: bool, progress: bool = True
) -> Views:
    """Return `views` with poses and lenses that fit the field in `state`.

    `is_trained` specifies whether `views` are the training views. `progress` specifies whether to
    show a progress bar if the optimization takes more than a second.
    """
    if is_trained:
        return replace(views, cameras=model.refinement.cameras(state.average))
    aligned = aligned_views(model, state, views)
    if not model.refinement.config.poses:
        return aligned
    log.info(
        "aligning %d cameras with the refined training cameras and refining them on their images",
        len(views.names),
    )
    return optimize_poses(model, state, aligned, progress=progress)


def aligned_views(model: Model, state: TrainState, views: Views) -> Views:
    """Return held-out `views` with refined lenses and with the similarity transform of the training
    cameras. No camera is optimized on its own image."""
    refinement = model.refinement
    cameras = refinement.with_lenses(views.cameras, state.average)
    if refinement.config.poses and refinement.initial is not None:
        refined = refinement.cameras(state.average)
        cameras = align_cameras(cameras, refinement.initial, refined)
    return replace(views, cameras=cameras)


def optimize_poses(
    model: Model, state: TrainState, views: Views, *, progress: bool = True
) -> Views:
    """Return `views` with each camera pose optimized on the view's image.

    The optimization does not change the field in `state`.
    """
    refinement = CameraRefinement(RefineConfig(poses=True), views.cameras)
    config = model.config
    step = Step(
        model=model,
        views=replace(views, depth=None),  # The metrics compare it with the field.
        refinement=refinement,
        ranks=ALONE,
        priors=Priors(PenaltyWeights(), views, None),
        rays=min(MAX_RAYS, config.train.max_rays),
        learns_cameras=True,
    )
    field = {name: state.average[name] for name in model.parameter_specs}
    scale, unscale = mx.array(config.train.loss_scale), mx.array([1.0 / config.train.loss_scale])

    @compiled_with_records
    def update(before: optimizer.OptimizerState, values: mx.array) -> optimizer.OptimizerState:
        key, train_frac, numbers = unpacked(values)
        batch = step.draw(field | before.parameters, key, train_frac)

        def loss_of(poses: Parameters) -> mx.array:
            seen = step.render(field | poses, state.sampling, batch)
            return step.loss(seen, batch.target, scale)

        gradients = mx.grad(loss_of)(before.parameters)
        rates = optimizer.StepNumbers.of(numbers, [POSES])
        return optimizer.adam(before, gradients, rates, (), unscale)

    poses = refinement.init()
    now = optimizer.OptimizerState(poses, optimizer.no_moments(poses))
    for index in tqdm(range(STEPS), "cameras", **delayed_progress(progress)):
        group = ParameterGroup(RATE * 0.01 ** (index / STEPS), 0.0)
        numbers = optimizer.step_numbers(index + 1, 0.0, OptimizerConfig(), [group])
        key = np.array([config.seed, index], np.uint32)
        now = update(now, step_values(key, state.train_frac, numbers))
        mx.eval(now.parameters)
    return replace(views, cameras=refinement.cameras(now.parameters))
