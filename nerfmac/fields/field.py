"""`Field`: the interface of a radiance field; implement it to train a field of your own.

A field holds no parameters. They are plain arrays that each call is given. So the same field serves
the training step, its averaged parameters in pictures, and parameters from a checkpoint.
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
"""What rays see. The number is the width of the picture, if the rays are its pixels; else 0."""


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

        `directions` (rays, 3) are unit vectors. The results are differentiable in the parameters.
        Slots from `samples.ray_start[-1]` on belong to no ray and may be given any values.
        """

    @abstractmethod
    def density(self, parameters: Parameters, position: mx.array) -> mx.array:
        """Density (points,) at `position` (points, 3); needs no gradient."""

    def density_of_first(
        self, parameters: Parameters, position: mx.array, used: mx.array
    ) -> mx.array:
        """Density where only the first `used` (1,) int32 positions count; else as `density`.

        The others may be given any values: a field that can leave them out replaces this.
        """
        return self.density(parameters, position)

    @property
    def bounded_gradients(self) -> frozenset[str]:
        """Names of parameters whose gradients are finite wherever all other gradients are.

        By default none. A step is skipped if a gradient is not finite; of these it need not look at
        every number, which for a large table takes a fiftieth of the step.
        """
        return frozenset()

    @property
    def decayed(self) -> frozenset[str]:
        """Names of the parameters that L2 regularisation shrinks: by default none.

        Leave out tables of which a step reads only a part: what it does not read must not shrink.
        """
        return frozenset()

    def coarsened(self, parameters: Parameters, detail: mx.array) -> Parameters:
        """The parameters of the field without its finest details; by default all of it.

        `detail` () float32, in [0, 1], says how much takes part. Cameras that are off find their
        places by coarse shapes first (BARF, Lin et al. 2021, section 3.3).
        """
        return parameters

    def tracer(self, parameters: Parameters, occupied: Occupied) -> Tracer | None:
        """A kernel that traces whole rays through `occupied` space; None where there is none.

        A field need not have one: pictures are then rendered in batches of samples.
        """
        return None
