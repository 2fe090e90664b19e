"""`Sampler`, the base class of samplers. Subclass `Sampler` to sample rays in a custom way.

Like a field, a sampler does not store values that change during training. Its parameters, which are
trained with its own loss, and its state, which updates replace, are dictionaries of named arrays
that may be empty. They are passed to each call.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import mlx.core as mx

from nerfmac.backend import Arrays, Shapes
from nerfmac.config import Config
from nerfmac.fields.field import Field, Parameters, ParameterSpec
from nerfmac.geometry import Bounds, Rays, Samples
from nerfmac.ops.march import Occupied
from nerfmac.sampling.ray_batch import RayBatch


class Sampled(NamedTuple):
    """Samples for a batch of rays."""

    samples: Samples
    learned: Any = None
    """Values that `Sampler.loss` reads, such as the weights of a proposal network: an array, or a
    tuple or dictionary of arrays, differentiable with respect to the parameters of the sampler."""
    samples_per_ray: mx.array | None = None
    """Mean number of slots per ray, a float32 scalar that determines the number of rays in later
    steps. If the value is None, training uses the mean of `samples.wanted`."""

    @property
    def mean_samples_per_ray(self) -> mx.array:
        """Mean number of slots per ray, a float32 scalar.

        The value is `samples_per_ray`, or the mean of `samples.wanted` if `samples_per_ray` is
        None.
        """
        if self.samples_per_ray is None:
            return self.samples.wanted.astype(mx.float32).mean()
        return self.samples_per_ray


# Function that returns samples at positions (points, 3) and their rays, each from the nearest
# training camera; see `nerfmac.geometry.Viewpoints.through`.
Through = Callable[[mx.array], tuple[Samples, Rays]]


class Sampler(ABC):
    """Base class of samplers. A sampler selects samples along rays and packs them into slots."""

    phases: int = 0
    """Number of kinds of updates: 0 if the state never changes, or, for example, 2 if updates
    during and after a warm-up differ."""

    update_rays: int = 1
    """Number of random training rays that each update uses."""

    def __init__(self, config: Config, bounds: Bounds, field: Field) -> None:
        """Create a sampler. A subclass may have other arguments if `Method.sampler` is a function.

        Args:
            config: Configuration of the run, in which no setting is automatic.
            bounds: The scene cube.
            field: Field that is rendered with the samples.
        """
        self.config, self.bounds, self.field = config, bounds, field

    @property
    @abstractmethod
    def most_samples(self) -> int:
        """Maximum number of samples along a ray."""

    @property
    def draws(self) -> int:
        """Number of random numbers per ray that `sample` requires."""
        return 1

    @property
    def parameter_specs(self) -> Mapping[str, ParameterSpec]:
        """Declarations of the parameters, keyed by names that the field does not use."""
        return {}

    def init_parameters(self, key: mx.array) -> Parameters:
        """Initialize the parameters.

        Args:
            key: Random key.

        Returns:
            float32 array for each name in `parameter_specs`.
        """
        return {}

    @property
    def shapes(self) -> Shapes:
        """Shapes of the arrays in the state, keyed by name."""
        return {}

    def init(self, rays: Iterable[Rays]) -> Arrays:
        """Return the state before the first step.

        Args:
            rays: Batches of random training rays.

        Returns:
            Array for each name in `shapes`.
        """
        return {}

    def with_depth(self, state: Arrays, measured: Iterable[tuple[Rays, mx.array]]) -> Arrays:
        """Return the state before the first step for rays along which a sensor has measured depth.

        Args:
            state: State from `init`.
            measured: Batches of random training rays, each with a float32 array (rays, 2) as in
                `nerfmac.ops.sensor_depth`.

        Returns:
            State of the sampler. By default, the measured depth has no effect.
        """
        return state

    @abstractmethod
    def sample(self, parameters: Arrays, state: Arrays, rays: Rays, drawn: mx.array) -> Sampled:
        """Select samples along rays. If there are too many samples, only the first rays get
        samples.

        Args:
            parameters: Parameters of the sampler and of the field.
            state: State of the sampler.
            rays: Rays in scene coordinates, without None (see `Rays.complete`).
            drawn: (rays, draws) float32 in [0, 1): random numbers in training, and 0.5 in
                rendering.

        Returns:
            Packed samples, without a gradient, and values for `loss`.
        """

    def loss(self, sampled: Sampled, rays: RayBatch, target: mx.array) -> mx.array | None:
        """Return the loss that trains the parameters of the sampler.

        Args:
            sampled: Result of `sample`.
            rays: The same rays, rendered with the field. To train only the sampler, use
                `mx.stop_gradient`.
            target: (rays, 3) float32, colors of the pixels.

        Returns:
            Loss of each ray, (rays,) or (rays, n), or None if the sampler has no loss.
        """
        return None

    def interval_at(self, step: int) -> int:
        """Return the number of training steps between two updates. Training yields a report before
        each update.

        Args:
            step: Index of the current step, from 0.

        Returns:
            Number of steps from this update to the next update.
        """
        return 16

    def phase_at(self, step: int) -> int:
        """Return the index of the kind of update, for example 0 during a warm-up and 1 after it.

        Args:
            step: Index of the step.

        Returns:
            Index in [0, phases), the argument `phase` of `update`.
        """
        return 0

    def update(
        self,
        parameters: Arrays,
        state: Arrays,
        rays: Rays,
        through: Through,
        key: mx.array,
        phase: int,
    ) -> Arrays:
        """Return the state after an update.

        Args:
            parameters: Parameters of the sampler and of the field.
            state: State of the sampler.
            rays: `self.update_rays` random training rays.
            through: Function that returns samples at given positions and their rays, to evaluate
                the field at points that are not on a training ray.
            key: Random key.
            phase: Kind of update, from `phase_at`.

        Returns:
            State of the sampler after the update.
        """
        return state

    def occupied(self, state: Arrays) -> Occupied | None:
        """Return the occupied cells.

        If the sampler returns occupied cells, rendering skips empty space and samples behind
        surfaces.

        Args:
            state: State of the sampler.

        Returns:
            Occupied cells and marching steps for rendering, or None if the sampler has no occupancy
            grid.
        """
        return None
