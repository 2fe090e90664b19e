"""`SharedLenses`: which views share a lens, and how refinement changes it.

Views of one size whose lenses have the same numbers are from one camera. A lens has three refined
numbers: the logarithm of a factor on both focal lengths, and additions to k1 and k2. They are P x
for the parameters x, with P of `lens_conditioning`. The principal point stays fixed, since moving
it is close to rotating the camera.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from functools import cached_property

import mlx.core as mx
import numpy as np

from nerfmac.geometry.cameras import Cameras
from nerfmac.geometry.lens_changes import lens_jvp
from nerfmac.geometry.rays import Rays
from nerfmac.refine.conditioning import lens_conditioning

LENS_PARAMETERS = 3


class SharedLenses:
    """The lenses of `cameras`, in the order of their first views."""

    def __init__(self, cameras: Cameras) -> None:
        keys = _keys(cameras)
        self._index = {key: index for index, key in enumerate(dict.fromkeys(keys))}
        self._first = [keys.index(key) for key in self._index]
        self._cameras = cameras

    def __len__(self) -> int:
        return len(self._index)

    @cached_property
    def _conditioning(self) -> mx.array:
        return mx.array(lens_conditioning(self._cameras)[self._first])

    @cached_property
    def of_views(self) -> mx.array:
        """Index of each view's lens, (views,) int32."""
        return mx.array([self._index[key] for key in _keys(self._cameras)], mx.int32)

    def changes(self, parameters: mx.array) -> mx.array:
        """Log focal factor and changes of k1 and k2, (lenses, 3), by `parameters` (lenses, 3)."""
        return (self._conditioning * parameters[:, None, :]).sum(axis=2)

    def refined(self, cameras: Cameras, changes: mx.array) -> Cameras:
        """`cameras`, with `changes` (lenses, 3) applied to those that have one of these lenses.

        Other cameras stay as they are, such as test cameras with a lens of their own.
        """
        indices = [self._index.get(key, len(self)) for key in _keys(cameras)]
        padded = mx.concatenate([changes, mx.zeros((1, LENS_PARAMETERS))])[mx.array(indices)]
        focal = cameras.intrinsics[:, :2] * mx.exp(padded[:, :1])
        radial = cameras.distortion[:, :2] + padded[:, 1:]
        return replace(
            cameras,
            intrinsics=mx.concatenate([focal, cameras.intrinsics[:, 2:]], axis=1),
            distortion=mx.concatenate([radial, cameras.distortion[:, 2:]], axis=1),
            is_distorted=True,
        )

    def direction_jvp(
        self, refined: Cameras, changes: mx.array, rays: Rays, view: mx.array
    ) -> mx.array:
        """Zeros (rays, 3) that carry gradients: d(ray direction) / d(`changes`).

        `refined` are the cameras with these `changes`; `view` (rays,) is the view of each ray.
        """
        axes = refined.poses[view, :, :3] * mx.array([1.0, -1.0, -1.0])  # y down, z forwards
        direction = (axes * rays.direction[:, :, None]).sum(axis=1)  # in the camera's axes
        change = (changes - mx.stop_gradient(changes))[self.of_views][view]
        radial = mx.concatenate([change[:, 1:], mx.zeros((change.shape[0], 5))], axis=1)
        distortion = mx.stop_gradient(refined.distortion)[view] + radial
        moved = lens_jvp(direction, change[:, :1], distortion, self._cameras.is_fisheye)
        return (axes * moved[:, None, :]).sum(axis=2)


def _keys(cameras: Cameras) -> list[Hashable]:
    lenses = np.concatenate([np.array(cameras.intrinsics), np.array(cameras.distortion)], axis=1)
    return [(size, *map(float, lens)) for size, lens in zip(cameras.sizes, lenses, strict=True)]
