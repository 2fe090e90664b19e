"""`Samples`: the points at which rays are sampled, packed without gaps in a fixed number of slots.

Ray r has the slots ray_start[r] to ray_start[r + 1] - 1, ordered front to back; ray_start never
decreases. Slots from ray_start[-1] on belong to no ray: their position, distance and width are
zero, and no result may depend on them.
"""

from __future__ import annotations

from typing import NamedTuple

import mlx.core as mx


class Thinning(NamedTuple):
    """What compositing needs to know of samples that were omitted at random.

    With it, transmittance and opacity are those of the whole ray.
    """

    inverse_probability: mx.array  # (slots,) float32, 1 / the probability of keeping the sample
    omitted: mx.array  # (slots,) float32, optical depth of the samples omitted in front of it
    ray_omitted: mx.array  # (rays,) float32, optical depth of all samples omitted on the ray


class Samples(NamedTuple):
    """Samples of `rays` rays, packed in `slots` slots; lengths are in scene units."""

    position: mx.array  # (slots, 3) float32, scene coordinates
    distance: mx.array  # (slots,) float32, from the ray's origin
    width: mx.array  # (slots,) float32, length of the interval the sample stands for
    ray: mx.array  # (slots,) int32, the ray a slot belongs to; 0 where none
    ray_start: mx.array  # (rays + 1,) int32
    wanted: mx.array  # (rays,) int32, samples that a ray asked for, even if they do not fit
    thinning: Thinning | None = None  # None: no sample was omitted

    @property
    def used(self) -> mx.array:
        """Number of slots that hold a sample, (1,) int32."""
        return self.ray_start[-1:]

    @property
    def fits(self) -> mx.array:
        """Whether each ray got every sample that it asked for, (rays,) bool."""
        return self.ray_start[1:] - self.ray_start[:-1] == self.wanted
