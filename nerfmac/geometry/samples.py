"""`Samples`: sample points along rays, in arrays with a fixed number of rows, called slots.

The samples of ray r are in the slots ray_start[r] to ray_start[r + 1] - 1, from front to back.
`ray_start` never decreases. The slots from ray_start[-1] on are unused, with zeros as position,
distance, and width. The results of operations must not depend on unused slots.

nerfacc names the same quantities as follows: `ray_start` is the boundary between consecutive rows
of `packed_info`, `ray` is `ray_indices`, and a sample's interval of length `width` is from
`t_starts` to `t_ends`.
"""

from __future__ import annotations

from typing import NamedTuple

import mlx.core as mx


class Thinning(NamedTuple):
    """Compositing correction for samples that were omitted at random.

    With this correction, transmittance and opacity include the omitted samples.
    """

    inverse_probability: mx.array  # (slots,) float32, 1 / the probability of keeping the sample.
    omitted: mx.array  # (slots,) float32, optical depth of the samples omitted in front of it.
    ray_omitted: mx.array  # (rays,) float32, optical depth of all samples omitted on the ray.


class Samples(NamedTuple):
    """Samples along rays, packed into slots. Lengths are in scene units."""

    position: mx.array  # (slots, 3) float32, scene coordinates.
    distance: mx.array  # (slots,) float32, from the ray origin.
    width: mx.array  # (slots,) float32, length of the interval that the sample represents.
    ray: mx.array  # (slots,) int32, index of the ray of each sample, or 0 in unused slots.
    ray_start: mx.array  # (rays + 1,) int32, first slot of each ray, then the number of used slots.
    wanted: mx.array  # (rays,) int32, requested samples per ray, including samples without a slot.
    thinning: Thinning | None = None  # Correction for omitted samples, or None without thinning.

    @property
    def t_starts(self) -> mx.array:
        """Distance of the start of each sample's interval, (slots,) float32, if the sample is in
        the middle of its interval."""
        return self.distance - 0.5 * self.width

    @property
    def t_ends(self) -> mx.array:
        """Distance of the end of each sample's interval, (slots,) float32, if the sample is in the
        middle of its interval."""
        return self.distance + 0.5 * self.width

    @property
    def is_used(self) -> mx.array:
        """Whether each slot contains a sample, (slots,) bool. Values that an operation returns for
        other slots are arbitrary and may be NaN, so that a matrix product with them would have a
        gradient that is not finite."""
        return mx.arange(self.ray.shape[0]) < self.used

    @property
    def used(self) -> mx.array:
        """Number of used slots, (1,) int32."""
        return self.ray_start[-1:]

    def part(self, first: int, size: int) -> Samples:
        """Return the samples in consecutive slots, without the correction for omitted samples.

        Args:
            first: Index of the first slot.
            size: Number of slots.

        Returns:
            Samples of the same rays.
        """
        slots = slice(first, first + size)
        position, distance, width, ray = (values[slots] for values in self[:4])
        ray_start = mx.clip(self.ray_start - first, 0, size)
        return Samples(position, distance, width, ray, ray_start, self.wanted)

    @property
    def fits(self) -> mx.array:
        """Whether there are slots for all requested samples of each ray, (rays,) bool."""
        return self.ray_start[1:] - self.ray_start[:-1] == self.wanted
