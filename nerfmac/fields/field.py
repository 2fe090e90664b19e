"""`Field`: what has a density and a colour everywhere in a scene; to be implemented by anybody.

A field is a value that is handed to whoever trains or renders it. It holds no parameters: they are
plain arrays that go in at every call, so that the training step, the averaged copy that pictures
are made with and a checkpoint all speak of the same thing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import mlx.core as mx

from nerfmac.backend import Arrays, Shapes
from nerfmac.geometry.rays import Rays
from nerfmac.geometry.samples import Samples
from nerfmac.ops.composite import Composited
from nerfmac.ops.march import Occupied

Parameters = Arrays
"""A field's parameters by name, each float32."""

Tracer = Callable[[Rays, int], Composited]
"""What rays see; the number is the width of the picture whose pixels they are, or 0."""


class Field(ABC):
    """A radiance field; positions are in scene coordinates, density is per scene unit."""

    @property
    @abstractmethod
    def shapes(self) -> Shapes:
        """The parameters' names and shapes. All are float32."""

    @abstractmethod
    def init(self, key: mx.array) -> Parameters:
        """Fresh parameters, drawn by the random `key`."""

    @abstractmethod
    def __call__(
        self, parameters: Parameters, samples: Samples, directions: mx.array
    ) -> tuple[mx.array, mx.array]:
        """Density (slots,) and colour (slots, 3) in [0, 1] of packed samples.

        `directions` (rays, 3) are the rays', unit. Differentiable in the parameters. Nothing is
        asked of slots from `samples.ray_start[-1]` on, which belong to no ray.
        """

    @abstractmethod
    def density(self, parameters: Parameters, position: mx.array) -> mx.array:
        """Density (points,) at `position` (points, 3); nobody asks for its gradient."""

    @property
    def decayed(self) -> frozenset[str]:
        """Names of the parameters that L2 regularisation shrinks: by default none.

        Not a table of which a step reads a part only: what nobody visits must not shrink.
        """
        return frozenset()

    def tracer(self, parameters: Parameters, occupied: Occupied) -> Tracer | None:
        """A kernel that follows whole rays through `occupied` space; None where there is none.

        It is an ability that a field may have: pictures are rendered without it too.
        """
        return None
