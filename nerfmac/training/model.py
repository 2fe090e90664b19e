"""`Model`: what is trained and rendered, namely field, sampler, losses, and camera refinement."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import mlx.core as mx
import numpy as np

from nerfmac.backend import Shapes
from nerfmac.common import UInt32Array
from nerfmac.config import Config
from nerfmac.fields.consistency import check_density
from nerfmac.fields.field import Parameters, ParameterSpec, shapes_of
from nerfmac.geometry import Bounds, Camera, Cameras, Rays, Viewpoints, Views, rays_through
from nerfmac.ops.draw_pixels import Drawn, draw_pixels, pixel_batches
from nerfmac.ops.loss_scale import LossScale
from nerfmac.ops.march import Occupied
from nerfmac.ops.sensor_depth import sensor_depth
from nerfmac.refine.refinement import CameraRefinement
from nerfmac.rendering.renderer import Renderer, TrainedField
from nerfmac.training.losses import huber_loss
from nerfmac.training.method import Method
from nerfmac.training.optimizer import no_moments
from nerfmac.training.ray_budget import RayBudget
from nerfmac.training.resolve import settled
from nerfmac.training.state import TrainState

RAYS_PER_FACE_CELL = 16
"""Maximum number of random training rays for computing the sampler's initial state, divided by the
number of cells in one face of the occupancy grid."""

PREVIEW_RAYS = 2**12
"""Number of random rays from which `Model.preview` computes the sampler state."""


class Model:
    """Components for training and rendering a scene. A model stores no parameters and no images,
    and can be used on any thread.

    Examples:
        >>> views = scene.views("train", progress=False)
        >>> model = nerfmac.Model(nerfmac.config.PRESETS["tiny"], scene.bounds, views.cameras)
        >>> state = model.init(views)
        >>> model.renderer(state).render(scene.splits["test"][0].camera).color.shape
        (128, 128, 3)
    """

    def __init__(
        self,
        config: Config,
        bounds: Bounds,
        cameras: Cameras | Sequence[Camera] | None = None,
        method: Method = Method(),  # noqa: B008 - a frozen value
    ) -> None:
        """Create the field, the sampler, and the losses without starting any computation.

        Args:
            config: All settings of the run. Settings that are automatic, because `resolve` has not
                been called, have the values for an unknown scene.
            bounds: The scene cube.
            cameras: Cameras of the training views, or None if they are unknown.
            method: Custom field, sampler, or losses.

        Raises:
            InputError: If the components of the method do not match.
        """
        self.config = config = settled(config, bounds)
        self.bounds, self.method = bounds, method
        if not isinstance(cameras, Cameras):
            cameras = Cameras.stack(cameras) if cameras else None
        self.field, self.sampler = method.components(config, bounds)
        self.viewpoints = Viewpoints.of(cameras, config.march.step, config.march.cone)
        self.losses = (method.loss or huber_loss(config.train.huber), *method.extra_losses)
        self.refinement = CameraRefinement(config.refine, cameras)

    @property
    def parameter_specs(self) -> dict[str, ParameterSpec]:
        """Declarations of the parameters of the field and the sampler, keyed by name."""
        return {**self.field.parameter_specs, **self.sampler.parameter_specs}

    @property
    def shapes(self) -> Shapes:
        """Shapes of the arrays in a training state, keyed by the names in `TrainState.arrays`."""
        parameters = shapes_of(self.parameter_specs) | self.refinement.shapes
        return TrainState.shapes(parameters, self.sampler.shapes)

    def init(self, views: Views) -> TrainState:
        """Return the training state before the first step.

        Args:
            views: Views to train on.

        Returns:
            State with random initial parameters and the initial sampler state.
        """
        key = random_key(self.config.seed, 0, stream=3)
        most = RAYS_PER_FACE_CELL * self.config.occupancy.resolution**2
        pixels, cameras, maps = views.pixels, views.cameras, views.depth

        def drawn() -> Iterator[tuple[mx.array, Drawn]]:
            for index in pixel_batches(cameras, most, key):
                yield index, draw_pixels(pixels, cameras, index)

        state = self._init(batch.rays for _, batch in drawn())
        if maps is None or not self.config.train.sensor:
            return state
        measured = (
            (batch.rays, sensor_depth(maps, cameras, index, batch.view)) for index, batch in drawn()
        )
        return replace(state, sampling=self.sampler.with_depth(state.sampling, measured))

    def preview(self, cameras: Sequence[Camera]) -> TrainState:
        """Return an approximate initial state, computed from few rays and without images.

        The method is much faster than `init`. The state is sufficient for low-resolution
        renderings but not for training.

        Args:
            cameras: Cameras of the training views.

        Returns:
            State with random initial parameters and an approximate sampler state.
        """
        stacked, key = Cameras.stack(cameras), random_key(self.config.seed, 0, stream=3)
        drawn = mx.random.uniform(shape=(3, PREVIEW_RAYS), key=key)
        view = (drawn[0] * len(cameras)).astype(mx.int32)
        pixel = drawn[1:].T * mx.array(stacked.sizes, mx.float32)[view]
        return self._init([rays_through(stacked, view, pixel)])

    def _init(self, rays: Iterable[Rays]) -> TrainState:
        seed, rays_at_first = self.config.seed, self.config.train.rays
        parameters = self.field.init(random_key(seed, 0, stream=2))
        self.check(parameters)
        parameters |= self.sampler.init_parameters(random_key(seed, 0, stream=4))
        parameters |= self.refinement.init()
        return TrainState(
            parameters=parameters,
            average=parameters,
            moments=no_moments(parameters),
            sampling=self.sampler.init(rays),
            scaling=LossScale.init(self.config.train.loss_scale)._asdict(),
            samples_per_ray=mx.array(RayBudget.of(self.config).samples_per_ray(rays_at_first)),
            rays=rays_at_first,
        )

    def check(self, parameters: Parameters) -> None:
        """Compare the two densities of a custom field.

        Args:
            parameters: Parameters of a training state.

        Raises:
            InputError: If the densities differ.
        """
        if self.method.field is not None:
            own = {name: parameters[name] for name in self.field.parameter_specs}
            check_density(self.field, own, self.bounds, self.viewpoints)

    def trained(self, state: TrainState) -> TrainedField:
        """Return the field with the averaged parameters of a training state.

        Args:
            state: State of the training.

        Returns:
            Field, parameters, and sampler for rendering.
        """
        viewpoints = self.viewpoints._replace(train_frac=state.train_frac)
        slots, sampling = self.config.march.max_samples, (self.sampler, state.sampling)
        return TrainedField(self.field, state.average, *sampling, slots, viewpoints)

    def renderer(self, state: TrainState, occupied: Occupied | None = None) -> Renderer:
        """Return a renderer for the field in a training state.

        Args:
            state: State of the training.
            occupied: Cells to sample. By default, the occupied cells of the sampler.

        Returns:
            Renderer that evaluates the field with averaged parameters.
        """
        return self.trained(state).renderer(occupied)


def random_key(seed: int, step: int, *, stream: int) -> mx.array:
    """Return the random key of a step. Steps, sampling, and initial values use different
    `stream`s."""
    return mx.array(key_words(seed, step, stream=stream))


def key_words(seed: int, step: int, *, stream: int) -> UInt32Array:
    """Return the two words of `random_key`."""
    # The offset between streams is 2^32 / golden ratio, so that similar seeds do not share a
    # stream.
    return np.array([(seed + stream * 0x9E3779B9) % 2**32, step], np.uint32)
