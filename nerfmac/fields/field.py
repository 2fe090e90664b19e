"""`Field`, the base class of radiance fields. Subclass `Field` to train a custom field.

A field does not store its parameters. The parameters are passed to each call, so the same field can
be evaluated with the parameters of a training step, with averaged parameters for rendering, and
with the parameters of a checkpoint.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import mlx.core as mx

from nerfmac.backend import Arrays, Shapes
from nerfmac.common import InputError
from nerfmac.config import Config
from nerfmac.geometry import Bounds, Rays, Samples
from nerfmac.ops.composite import Composited
from nerfmac.ops.march import Occupied

Parameters = Arrays
"""Parameter values of a field: float32 arrays, keyed by parameter name."""

Tracer = Callable[[Rays, int | None], Composited]
"""Function that renders rays. If the rays are the pixels of an image in row-major order, its second
argument is the image width. For other rays, the second argument is None."""


@dataclass(frozen=True)
class ParameterSpec:
    """Declaration of a trained parameter. Parameters are float32 arrays.

    Examples:
        >>> nerfmac.ParameterSpec((3, 16), is_l2_regularized=True)
        ParameterSpec(shape=(3, 16), is_l2_regularized=True, has_bounded_gradient=False)
    """

    shape: tuple[int, ...]
    """Shape of the array."""
    is_l2_regularized: bool = False
    """Whether L2 regularization applies to the parameter. Use False for tables, because a training
    step reads only a few table entries, and the other entries must not decay."""
    has_bounded_gradient: bool = False
    """Whether the gradient is always finite if the gradients of all other parameters are finite. A
    training step is skipped if a gradient is not finite. Training does not check a bounded
    gradient, because checking a large table would take 2 % of the step time."""


class FieldOutput(NamedTuple):
    """Output of a field at packed samples. All arrays have a row for each slot.

    Examples:
        >>> output = nerfmac.FieldOutput(mx.ones(2), mx.zeros((2, 3)), {"feature": mx.ones((2, 8))})
        >>> output.extras["feature"].shape
        (2, 8)
    """

    density: mx.array  # (slots,) float32, per scene unit
    color: mx.array  # (slots, 3) float32, in [0, 1]
    extras: Mapping[str, mx.array] = {}  # (slots, channels) float32 for each of `Field.extras`


def shapes_of(specs: Mapping[str, ParameterSpec]) -> Shapes:
    """Return the shapes of the parameters declared in `specs`, keyed by name."""
    return {name: spec.shape for name, spec in specs.items()}


DensityOf = Callable[[Parameters, Samples, Rays], mx.array]  # like `Field.density`


def evaluated(field: Field, parameters: Parameters, samples: Samples, rays: Rays) -> FieldOutput:
    """Return the output of a custom or built-in `field`. If the output is not a `FieldOutput` with
    the field's `extras`, raise `InputError`."""
    output, name = field(parameters, samples, rays.complete), type(field).__name__
    if not isinstance(output, FieldOutput):
        raise InputError(
            f"the output of {name} is a {type(output).__name__}; expected a nerfmac.FieldOutput, "
            "such as FieldOutput(density, color)"
        )
    slots = samples.position.shape[0]
    found = {extra: tuple(values.shape) for extra, values in output.extras.items()}
    declared = {extra: (slots, channels) for extra, channels in field.extras.items()}
    if found != declared:
        raise InputError(
            f"the output of {name} has extras with the shapes {found}; expected {declared}: "
            "declare the name and the number of channels of each of them in `extras`"
        )
    return output


class Field(ABC):
    """Base class of radiance fields. A field is a function of parameters, samples, and rays.

    Marching, thinning, early termination, rendering, and exports evaluate the same function.
    Positions are in scene coordinates, and density is per scene unit.

    Examples:
        >>> class Ball(nerfmac.Field):
        ...     parameter_specs = {
        ...         "color": nerfmac.ParameterSpec((3,)),
        ...         "radius": nerfmac.ParameterSpec((1,)),
        ...     }
        ...
        ...     def init(self, key):
        ...         return {"color": mx.zeros(3), "radius": mx.array([0.2])}
        ...
        ...     def __call__(self, parameters, samples, rays):
        ...         distance = mx.linalg.norm(samples.position - 0.5, axis=1)
        ...         density = 40.0 * mx.sigmoid(30.0 * (parameters["radius"] - distance))
        ...         color = mx.sigmoid(parameters["color"])
        ...         return nerfmac.FieldOutput(density, mx.broadcast_to(color, (len(density), 3)))
        >>> method = nerfmac.Method(field=Ball)
        >>> run = nerfmac.train(scene, "tiny", nerfmac.Goal(steps=20), method=method)
    """

    extras: Mapping[str, int] = {}
    """Number of channels of each additional output, keyed by name. Additional outputs, such as
    semantic classes, are composited with the same weights as colors."""

    def __init__(self, config: Config, bounds: Bounds) -> None:
        """Create a field. A subclass may have other arguments if `Method.field` is a function.

        Args:
            config: Configuration of the run, in which no setting is automatic.
            bounds: The scene cube.
        """
        self.config, self.bounds = config, bounds

    @property
    @abstractmethod
    def parameter_specs(self) -> Mapping[str, ParameterSpec]:
        """Declarations of the parameters, keyed by name."""

    @abstractmethod
    def init(self, key: mx.array) -> Parameters:
        """Initialize the parameters.

        Args:
            key: Random key.

        Returns:
            float32 array for each name in `parameter_specs`.
        """

    @abstractmethod
    def __call__(self, parameters: Parameters, samples: Samples, rays: Rays) -> FieldOutput:
        """Return the density, color, and additional outputs of packed samples.

        Args:
            parameters: Parameters of the field.
            samples: Packed samples. The sample in slot i is on the ray `samples.ray[i]`, at
                `samples.distance[i]` from its camera, and represents an interval with the length
                `samples.width[i]`.
            rays: Rays of the samples, without None (see `Rays.complete`).

        Returns:
            Density (slots,) per scene unit, color (slots, 3) in [0, 1], and an array (slots,
            channels) for each name in `extras`. All of them must be differentiable with respect to
            the parameters. The slots from `samples.ray_start[-1]` on are unused, and their values
            are arbitrary.
        """

    def density(self, parameters: Parameters, samples: Samples, rays: Rays) -> mx.array:
        """Return only the density of packed samples.

        By default, the method evaluates the whole field. Override this method if the density can be
        computed without the colors. The density must be that of `__call__`, but does not have to be
        differentiable.

        Args:
            parameters: Parameters of the field.
            samples: Packed samples, as in `__call__`.
            rays: Rays of the samples, without None.

        Returns:
            Density (slots,) per scene unit. The values of unused slots are arbitrary.
        """
        return evaluated(self, parameters, samples, rays).density

    def tracer(self, parameters: Parameters, occupied: Occupied) -> Tracer | None:
        """Return a function that traces whole rays in one kernel, or None.

        Args:
            parameters: Parameters of the field.
            occupied: Occupied cells of the scene.

        Returns:
            Tracer, or None if images must be rendered in batches of samples.
        """
        return None
