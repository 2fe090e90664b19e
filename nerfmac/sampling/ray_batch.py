"""`RayBatch`: a rendered batch of training rays, the input of losses."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import mlx.core as mx

from nerfmac.fields.field import FieldOutput, Parameters
from nerfmac.geometry import Samples
from nerfmac.ops.composite import Composited, sample_weights


class RayBatch(NamedTuple):
    """Rendered batch of rays. MLX computes only the values that a loss uses.

    `color`, `opacity`, `depth`, `extras`, and `output` are differentiable with respect to the
    parameters of the field.
    """

    color: mx.array  # (rays, 3) float32, over the random background of each ray
    opacity: mx.array  # (rays,) float32, in [0, 1]
    depth: mx.array  # (rays,) float32, sum of weight * distance
    extras: Mapping[str, mx.array]
    """Composited additional outputs of the field, (rays, channels) float32 for each name."""
    mask: mx.array  # (rays, 1) float32, 0 for masked rays and for rays without slots, otherwise 1
    output: FieldOutput  # output of the field at each sample
    samples: Samples
    origin: mx.array  # (rays, 3) float32, camera position
    direction: mx.array  # (rays, 3) float32, unit vector
    view: mx.array  # (rays,) int32, index of the view of each ray
    radius: mx.array  # (rays,) float32, radius of the pixel's cone at the distance 1
    train_frac: mx.array  # float32 scalar, completed fraction of the training
    pixel: mx.array
    """Index of the pixel of each ray among the pixels of all training views, (rays,) int32. Labels
    of pixels can be looked up in an array with the rows of `scene.views("train").pixels`."""
    density_at: Callable[[mx.array], mx.array]
    """Function that returns the density (points,) per scene unit at positions (points, 3) in scene
    coordinates, differentiable with respect to the parameters of the field."""
    over_background: Callable[[Composited], Composited]
    """Function that returns another rendering of the same rays over their backgrounds, with the
    exposures of their views."""
    parameters: Parameters
    """Parameters of the field and of the sampler, which a loss may penalize directly."""
    known: Mapping[str, mx.array]
    """Known distances along the rays: `tracks`, `ground`, and `sensor`, as in
    `nerfmac.ops.penalty.penalties`, if the losses that use them are enabled."""
    penalty: mx.array | None = None  # (rays,) sum of the losses that are penalties, or None

    @property
    def density(self) -> mx.array:
        """Density of each sample, float32 (slots,)."""
        return self.output.density

    @property
    def weights(self) -> mx.array:
        """Weight of each sample in the color of its ray, float32 (slots,).

        `samples.ray` contains each sample's ray index. The weight of unused slots is 0.
        """
        return sample_weights(self.density, self.samples)

    @property
    def distances(self) -> mx.array:
        """Distance of each sample from its camera, float32 (slots,)."""
        return self.samples.distance
