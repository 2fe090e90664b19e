"""`Sampler`: where along rays a field is evaluated; implement it to sample in a way of your own.

A sampler, like a field, holds nothing that training changes. Its state, if there is any, is named
arrays that each call is given, and that an update returns.
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
    """Rays' samples, and what a proposal showed on the way to them."""

    samples: Samples
    proposals: tuple[Composited, ...] = ()
    """What the rays see of each coarser field that chose the samples; the loss counts these too."""
    demand: mx.array | None = None
    """() float32, slots that a ray takes, by which training chooses its rays; None: its samples."""

    @property
    def slots_per_ray(self) -> mx.array:
        """() float32, the `demand`, or how many samples a ray wants, in the mean."""
        if self.demand is None:
            return self.samples.wanted.astype(mx.float32).mean()
        return self.demand


class Sampler(ABC):
    """Gives rays their packed samples."""

    phases: int = 0
    """How many kinds of update the state has, such as warm-up and later; 0: it never changes."""

    followed: int = 1
    """How many rays of the training views an update is given, drawn at random as for a step."""

    @property
    @abstractmethod
    def most_samples(self) -> int:
        """The most samples that a ray can have."""

    @property
    def draws(self) -> int:
        """How many random numbers each ray takes."""
        return 1

    @property
    def shapes(self) -> Shapes:
        """The names and shapes of the state's arrays."""
        return {}

    def init(self, rays: Iterable[Rays]) -> Arrays:
        """The state before the first step; `rays`: many of the training views, drawn at random."""
        return {}

    @abstractmethod
    def sample(self, parameters: Arrays, state: Arrays, rays: Rays, drawn: mx.array) -> Sampled:
        """The samples of `rays`; if not all fit, the first rays get theirs.

        `drawn` (rays, draws) holds numbers in [0, 1): random ones in training, 0.5 in pictures.
        `parameters` are the field's, for samplers that evaluate a field. Proposals are
        differentiable in them; no gradient flows through the samples.
        """

    def interval_at(self, step: int) -> int:
        """Steps from one update of the state to the next, around `step`; a report follows each."""
        return 16

    def phase_at(self, step: int) -> int:
        """Which kind of update, in [0, phases), is due at `step`."""
        return 0

    def update(
        self, parameters: Arrays, state: Arrays, rays: Rays, key: mx.array, phase: int
    ) -> Arrays:
        """The state after an update, for which `rays` may be followed; `key` is a random key."""
        return state

    def occupied(self, state: Arrays) -> Occupied | None:
        """The cells and steps that pictures are sampled in; None if the sampler has no such cells.

        With them, pictures skip empty space and whatever lies behind surfaces.
        """
        return None
