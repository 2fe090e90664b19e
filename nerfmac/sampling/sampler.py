"""`Sampler`: where along its rays a field is evaluated; to be implemented by anybody.

Like a field it is a value that holds nothing that training changes: its state, if it has any, is
named arrays that go in and come out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import mlx.core as mx

from nerfmac.backend import Arrays, Shapes
from nerfmac.geometry.cameras import Cameras
from nerfmac.geometry.rays import Rays
from nerfmac.geometry.samples import Samples
from nerfmac.ops.composite import Composited
from nerfmac.ops.march import Occupied

Density = Callable[[mx.array], mx.array]
"""Density (points,) per scene unit at positions (points, 3)."""


class Sampled(NamedTuple):
    """Rays' samples, and what was seen while they were looked for."""

    samples: Samples
    proposals: tuple[Composited, ...] = ()
    """What the rays see of a coarser field that chose the samples; the loss is taken of it too."""


class Sampler(ABC):
    """Rays to packed samples."""

    phases: int = 0
    """Kinds of update that the state knows in the course of training; 0: it never changes."""

    @property
    @abstractmethod
    def most_samples(self) -> int:
        """Most samples that a ray can have."""

    @property
    def draws(self) -> int:
        """Random numbers that a ray takes."""
        return 1

    @property
    def shapes(self) -> Shapes:
        """The names and shapes of the state's arrays."""
        return {}

    def init(self, cameras: Cameras) -> Arrays:
        """The state before the first step, for scenes that `cameras` look at."""
        return {}

    @abstractmethod
    def sample(self, parameters: Arrays, state: Arrays, rays: Rays, drawn: mx.array) -> Sampled:
        """The samples of `rays`, which are served in order if there is not room for all.

        `drawn` (rays, draws) holds numbers in [0, 1): random ones in training, 0.5 in pictures.
        `parameters` are the field's, for samplers that ask it. What depends on them may be
        differentiated; the samples themselves are constants.
        """

    def interval_at(self, step: int) -> int:
        """Steps between two updates of the state, and so between two reports, around `step`."""
        return 16

    def phase_at(self, step: int) -> int:
        """Which kind of update, in [0, phases), falls due at `step`."""
        return 0

    def update(self, state: Arrays, density: Density, key: mx.array, phase: int) -> Arrays:
        """The state, brought up to date with the field's `density`; `key` is random."""
        return state

    def occupied(self, state: Arrays) -> Occupied | None:
        """The cells outside which there are no samples; None from a sampler that knows of none.

        With them pictures need not visit empty space or what lies behind surfaces.
        """
        return None
