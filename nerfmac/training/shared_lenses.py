"""`SharedLenses`: which views one camera took, and what its lens is when it is corrected.

Views of one size whose lenses have the same numbers are of one camera. A lens has three numbers to
learn: the logarithm of a factor on both focal lengths, and what is added to k1 and k2. They are
P x, by `training.conditioning`. The principal point stays: to move it is to turn the camera.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from functools import cached_property

import mlx.core as mx
import numpy as np

from nerfmac.geometry.cameras import Cameras
from nerfmac.geometry.lens_changes import looks_elsewhere
from nerfmac.geometry.rays import Rays
from nerfmac.training.conditioning import lens_conditioning

NUMBERS = 3


class SharedLenses:
    """The lenses of the views of `given` cameras, in the order of the first view of each."""

    def __init__(self, given: Cameras) -> None:
        keys = _keys(given)
        self._numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
        self._first = [keys.index(key) for key in self._numbers]
        self._is_fisheye = given.is_fisheye
        self._given = given

    def __len__(self) -> int:
        return len(self._numbers)

    @cached_property
    def _conditioning(self) -> mx.array:
        return mx.array(lens_conditioning(self._given)[self._first])

    @cached_property
    def of_views(self) -> mx.array:
        """(views,) int32: the lens of each view."""
        return mx.array([self._numbers[key] for key in _keys(self._given)], mx.int32)

    def changes(self, learned: mx.array) -> mx.array:
        """(lenses, 3): the logarithm of the focal factor, and what k1 and k2 gain; of x `learned`,
        (lenses, 3) too.
        """
        return (self._conditioning * learned[:, None, :]).sum(axis=2)

    def corrected(self, cameras: Cameras, changes: mx.array) -> Cameras:
        """`cameras`, those whose lens is one of these with it as `changes` (lenses, 3) leave it.

        Others, such as a test view's that no training view shares, stay as they are.
        """
        numbers = [self._numbers.get(key, len(self)) for key in _keys(cameras)]
        padded = mx.concatenate([changes, mx.zeros((1, NUMBERS))])[mx.array(numbers)]
        focal = cameras.intrinsics[:, :2] * mx.exp(padded[:, :1])
        radial = cameras.distortion[:, :2] + padded[:, 1:]
        return replace(
            cameras,
            intrinsics=mx.concatenate([focal, cameras.intrinsics[:, 2:]], axis=1),
            distortion=mx.concatenate([radial, cameras.distortion[:, 2:]], axis=1),
            is_distorted=True,
        )

    def turns(self, now: Cameras, changes: mx.array, rays: Rays, view: mx.array) -> mx.array:
        """Zeros (rays, 3): how directions of `rays` move with the lenses, for gradients in
        `changes`, whose values `now` has; `view` is each ray's.
        """
        axes = now.poses[view, :, :3] * mx.array([1.0, -1.0, -1.0])  # y down, z forwards
        own = (axes * rays.direction[:, :, None]).sum(axis=1)
        change = (changes - mx.stop_gradient(changes))[self.of_views][view]
        shift = mx.concatenate([change[:, 1:], mx.zeros((change.shape[0], 5))], axis=1)
        distortion = mx.stop_gradient(now.distortion)[view] + shift
        moved = looks_elsewhere(own, change[:, :1], distortion, self._is_fisheye)
        return (axes * moved[:, None, :]).sum(axis=2)


def _keys(cameras: Cameras) -> list[Hashable]:
    lenses = np.concatenate([np.array(cameras.intrinsics), np.array(cameras.distortion)], axis=1)
    return [(size, *map(float, lens)) for size, lens in zip(cameras.sizes, lenses, strict=True)]
