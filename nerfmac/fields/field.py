"""`Field`: the interface of a radiance field; implement it to train a custom field.

A field stores no parameters: they are arguments of each call. The same field can therefore be used
in the training step, for images with averaged parameters, and with parameters from a checkpoint.
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
"""Field parameters: a dictionary from name to float32 array."""

Tracer = Callable[[Rays, int], Composited]
"""Function that composites rays. The number is the image width if the rays are image pixels,
otherwise 0."""


class Field(ABC):
    """A radiance field; positions are in scene coordinates, density is per scene unit.

    >>> class Ball(nerfmac.Field):
    ...     shapes = {"color": (3,), "radius": (1,)}
    ...
    ...     def init(self, key):
    ...         return {"color": mx.zeros(3), "radius": mx.array([0.2])}
    ...
    ...     def density(self, parameters, position):
    ...         distance = mx.linalg.norm(position - 0.5, axis=1)
    ...         return 40.0 * mx.sigmoid(30.0 * (parameters["radius"] - distance))
    ...
    ...     def __call__(self, parameters, samples, directions):
    ...         color = mx.sigmoid(parameters["color"])
    ...         density = self.density(parameters, samples.position)
    ...         return density, mx.broadcast_to(color, samples.position.shape)
    >>> method = nerfmac.Method(field=Ball())
    >>> run = nerfmac.train(scene, method=method, preset="tiny", steps=20, progress=False)
    """

    @property
    @abstractmethod
    def shapes(self) -> Shapes:
        """The parameters' names and shapes. All are float32."""

    @abstractmethod
    def init(self, key: mx.array) -> Parameters:
        """Initialize the parameters with the random `key`."""

    @abstractmethod
    def __call__(
        self, parameters: Parameters, samples: Samples, directions: mx.array
    ) -> tuple[mx.array, mx.array]:
        """Return density (slots,) and color (slots, 3) in [0, 1] of packed samples.

        `directions` (rays, 3) are unit vectors. The results are differentiable in the parameters.
        Slots from `samples.ray_start[-1]` on are unused, and their values are arbitrary.
        """

    @abstractmethod
    def density(self, parameters: Parameters, position: mx.array) -> mx.array:
        """Density (points,) at `position` (points, 3); needs no gradient."""

    def density_of_first(
        self, parameters: Parameters, position: mx.array, used: mx.array
    ) -> mx.array:
        """Density (points,). Only the first `used` (1,) int32 values are valid.

        Override this method to skip the other points. Their values are arbitrary.
        """
        return self.density(parameters, position)

    @property
    def bounded_gradients(self) -> frozenset[str]:
        """Names of parameters with gradients that are finite if all other gradients are finite.

        By default none. A step is skipped if any gradient is not finite. The gradients named here
        are not checked: for a large table, the check would take 2 % of the step.
        """
        return frozenset()

    @property
    def l2_regularized(self) -> frozenset[str]:
        """Names of parameters with L2 regularization, by default none.

        Exclude tables: a step reads only a few of their entries, and the other entries must not
        decay.
        """
        return frozenset()

    def coarse_to_fine(self, parameters: Parameters, level_progress: mx.array) -> Parameters:
        """The parameters without the effect of the finest levels; by default all parameters.

        `level_progress` () float32 grows from 0 to 1 as levels are added. Wrong cameras are
        corrected by coarse shapes first (BARF, Lin et al. 2021, section 3.3).
        """
        return parameters

    def tracer(self, parameters: Parameters, occupied: Occupied) -> Tracer | None:
        """A function that traces whole rays through `occupied` cells in one kernel, or None.

        Without one, images are rendered in batches of samples.
        """
        return None
