"""`Views`: the images and cameras of a split, on the device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import mlx.core as mx
import numpy as np

from nerfmac.common import Float32Array
from nerfmac.geometry.cameras import Cameras, shown_sizes
from nerfmac.geometry.color import over
from nerfmac.geometry.depth_maps import DepthMaps
from nerfmac.geometry.tracks import Tracks

if TYPE_CHECKING:
    from nerfmac.geometry.ground_planes import GroundPlane

Color = tuple[float, float, float]

SAMPLED_PIXELS = 2**16
"""Number of random pixels used to estimate the mean color of a split."""


@dataclass(frozen=True, eq=False)
class Views:
    """Views of a split on the device: pixels, cameras, and names.

    Attributes:
        pixels: uint8 (pixels, 3 or 4) with straight alpha, view by view in row-major order. Views
            may differ in size.
        cameras: Cameras of the views.
        names: Names of the views.
        kept: bool (pixels,), False for masked pixels, or None if the views have no masks.
        tracks: Observations of sparse points in these views, or None. Only the training split has
            tracks.
        depth: Depth maps that a sensor has measured for these views, or None.
        find_ground: Function that finds the ground plane of the sparse points, or None. Only the
            training split has this function.
    """

    pixels: mx.array
    cameras: Cameras
    names: tuple[str, ...]
    kept: mx.array | None = None
    tracks: Tracks | None = None
    depth: DepthMaps | None = None
    find_ground: Callable[[], GroundPlane | None] | None = None

    def __repr__(self) -> str:
        sizes, channels = shown_sizes(self.cameras.sizes), self.pixels.shape[1]
        return f"Views({len(self.names)} of {sizes}, {channels} channels)"

    @cached_property
    def ground(self) -> GroundPlane | None:
        """Ground plane of the sparse points, or None. The plane is computed on first access."""
        return self.find_ground() if self.find_ground else None

    def image(self, index: int) -> mx.array:
        """Return a view's image, which is not composited over a background.

        Args:
            index: Index of the view.

        Returns:
            uint8 array (h, w, 3 or 4).
        """
        return self._of_view(self.pixels, index)

    def kept_of(self, index: int) -> mx.array | None:
        """Return a view's mask.

        Args:
            index: Index of the view.

        Returns:
            bool array (h, w), False for masked pixels, or None if the views have no masks.
        """
        return None if self.kept is None else self._of_view(self.kept, index)[..., 0]

    def mean_color(self) -> Color | None:
        """Return the mean color of the images, estimated from random pixels that are not masked.

        Returns:
            sRGB color in [0, 1], or None if the images have an alpha channel.
        """
        if self.pixels.shape[1] == 4:
            return None
        index = mx.random.randint(0, len(self.pixels), (SAMPLED_PIXELS,), key=mx.random.key(0))
        kept = mx.ones(index.shape) if self.kept is None else self.kept[index].astype(mx.float32)
        colors = self.pixels[index].astype(mx.float32) / 255.0
        mean = (kept[:, None] * colors).sum(axis=0) / mx.maximum(kept.sum(), 1.0)
        red, green, blue = (round(float(channel), 4) for channel in mean)
        return red, green, blue

    def _of_view(self, values: mx.array, index: int) -> mx.array:
        index = range(len(self.names))[index]
        start = sum(w * h for w, h in self.cameras.sizes[:index])
        width, height = self.cameras.sizes[index]
        return values[start : start + width * height].reshape(height, width, -1)

    def blended(
        self, index: int, background: Color = (1.0, 1.0, 1.0), blend: str = "srgb"
    ) -> mx.array:
        """Composite a view's image over a background, on the device.

        Args:
            index: Index of the view.
            background: sRGB color in [0, 1].
            blend: Color space for compositing: `srgb` or `linear`.

        Returns:
            sRGB image, float32 (h, w, 3) in [0, 1].
        """
        image = self.image(index).astype(mx.float32) / 255.0
        if image.shape[2] == 4:
            image = over(image, mx.array(background), blend)
        return image

    def photo(
        self, index: int, background: Color = (1.0, 1.0, 1.0), blend: str = "srgb"
    ) -> Float32Array:
        """Composite a view's image over a background, and copy the result to host memory.

        Args:
            index: Index of the view.
            background: sRGB color in [0, 1].
            blend: Color space for compositing: `srgb` or `linear`.

        Returns:
            sRGB image, float32 (h, w, 3) in [0, 1].
        """
        return np.array(self.blended(index, background, blend))
