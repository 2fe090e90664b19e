"""`Sampler` selects the sample positions along rays. Implement it for custom sampling.

Like a field, a sampler does not store trained values. Its state, if it has any, is a dictionary of
named arrays. The state is an argument of every call, and an update returns a new state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import NamedTuple

import mlx.core as mx

from nerfmac.backend import Arrays, Shapes
from nerfmac.geometry.rays import Rays
from nerfmac.geometry.samples import Samples
from nerfmac.ops.composite import Composited
from nerfmac.ops.march import Occupied


class Sampled(NamedTuple):
    """Samples for a batch of rays."""

    samples: Samples
    proposals: tuple[Composited, ...] = ()
    """Composited color of each proposal field along the rays. The color loss applies to these
    colors, too."""
    samples_per_ray: mx.array | None = None
    """Mean number of slots per ray, () float32, which determines the number of rays in the next
    batch. If it is None, the mean of `samples.wanted` is used."""

    @property
    def mean_samples_per_ray(self) -> mx.array:
        """`samples_per_ray` if it is set, otherwise the mean of `samples.wanted`: () float32."""
        if self.samples_per_ray is None:
            return self.samples.wanted.astype(mx.float32).mean()
        return self.samples_per_ray


class Sampler(ABC):
    """Selects the samples along rays and packs them ray by ray."""

    phases: int = 0
    """Number of kinds of updates, such as updates during the warm-up and after it. It is 0 if the
    state never changes."""

    update_rays: int = 1
    """Number of random training rays that an update uses."""

    @property
    @abstractmethod
    def most_samples(self) -> int:
        """Maximum number of samples of a ray."""

    @property
    def draws(self) -> int:
        """Number of random numbers that `sample` needs for each ray."""
        return 1

    @property
    def shapes(self) -> Shapes:
        """Names and shapes of the arrays in the state."""
        return {}

    def init(self, rays: Iterable[Rays]) -> Arrays:
        """Return the state before the first step.

        Args:
            rays: Batches of random training rays.

        Returns:
            Array for each name in `shapes`.
        """
        return {}

    @abstractmethod
    def sample(self, parameters: Arrays, state: Arrays, rays: Rays, drawn: mx.array) -> Sampled:
        """Return the samples of rays. If they do not all fit, only the first rays have samples.

        Args:
            parameters: Field parameters, for samplers that evaluate a field.
            state: State of the sampler.
            rays: Rays in scene coordinates.
            drawn: (rays, draws) float32 in [0, 1): random in training, 0.5 in images.

        Returns:
            Packed samples and proposals. Proposals are differentiable with respect to `parameters`.
            No gradient flows through the samples.
        """

    def interval_at(self, step: int) -> int:
        """Return the number of steps between updates. After each update, there is a report.

        Args:
            step: Index of the step.

        Returns:
            Number of steps.
        """
        return 16

    def phase_at(self, step: int) -> int:
        """Return the kind of update, for example 0 during the warm-up and 1 after it.

        Args:
            step: Index of the step.

        Returns:
            Index in [0, phases), the argument `phase` of `update`.
        """
        return 0

    def update(
        self, parameters: Arrays, state: Arrays, rays: Rays, key: mx.array, phase: int
    ) -> Arrays:
        """Return the state after an update.

        Args:
            parameters: Field parameters.
            state: State of the sampler.
            rays: Random training rays, `self.update_rays` of them.
            key: Random key.
            phase: Kind of update, from `phase_at`.

        Returns:
            New state.
        """
        return state

    def occupied(self, state: Arrays) -> Occupied | None:
        """Return the occupied cells.

        With occupied cells, rendering skips empty space and samples behind surfaces.

        Args:
            state: State of the sampler.

        Returns:
            Occupied cells and steps for rendering; None if the sampler has no occupancy grid.
        """
        return None
