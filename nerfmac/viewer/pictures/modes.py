"""The viewer's pictures: what cameras see of one state of training, in each of several modes.

    colour     the field, over the background
    depth      how far away what is seen is, from red at 0 to violet at twice the distance of the
               focus, by Perlin's smooth step (2002)
    normals    which way surfaces face in the scene's axes, 0.5 + 0.5 normal as red, green and blue
    opacity    how much of the light is stopped, from black to white
    occupancy  the occupied cells as solid blocks; brightness depends on the axis that a face is
               perpendicular to and, a little, on the cell; colour depends on the cascade
    samples    how many samples a ray has in occupied space, on a logarithmic colour map that ends
               at the most that a ray of the scene may have

A pixel depends on its own ray only, so strips of a picture join without a seam. In all modes but
`opacity` the background shows behind what is not opaque, and where a ray meets no occupied cell.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import log
from typing import NamedTuple

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from nerfmac.common import checks
from nerfmac.common.checks import InputError
from nerfmac.geometry.bounds import from_centre
from nerfmac.geometry.cameras import Camera
from nerfmac.geometry.colour import exposed
from nerfmac.geometry.rays import camera_rays
from nerfmac.ops.march import Occupied
from nerfmac.rendering.colour_map import INFERNO, TURBO, coloured
from nerfmac.rendering.crop import Box, cropped
from nerfmac.rendering.normals import normals
from nerfmac.rendering.renderer import Picture, Renderer
from nerfmac.training.state import TrainState
from nerfmac.training.trainer import Trainer
from nerfmac.viewer.pictures.blocks import cascade_of, first_blocks, first_samples

MODES = ("colour", "depth", "normals", "opacity", "occupancy", "samples")

FACES = (0.8, 0.62, 1.0)
"""Brightness of faces across x, y and z."""

SHADES = 0.12
"""Largest difference in brightness between cells."""

CELLS = 128
"""Without a grid, normals are taken over cells of which so many fit along the unit cube."""

CASCADES = (
    (0.96, 0.72, 0.30),
    (0.40, 0.70, 0.90),
    (0.55, 0.80, 0.45),
    (0.90, 0.50, 0.65),
    (0.70, 0.60, 0.90),
)
"""Colours of the cascades, from the innermost on; after the last they repeat."""


@dataclass(frozen=True)
class Look:
    """How a scene is shown. Raises InputError."""

    mode: str = "colour"
    background: tuple[float, float, float] = (1.0, 1.0, 1.0)  # sRGB in [0, 1]
    exposure: float = 0.0
    """Stops: each doubles the picture's light, the background's too; in mode colour only."""
    crop: Box | None = None
    """Lowest and highest corner, scene units: cells of the grid outside it are not shown."""

    def __post_init__(self) -> None:
        checks.choice("mode", self.mode, MODES)
        _check_triple("background", self.background, 0.0, 1.0)
        checks.number("exposure", self.exposure, low=-20.0, high=20.0)
        if self.crop is None:
            return
        if len(self.crop) != 2:
            raise InputError(f"crop has {len(self.crop)} corners; expected the lowest and highest")
        for name, corner in zip(("lowest", "highest"), self.crop, strict=True):
            _check_triple(f"crop's {name} corner", corner, -1e9, 1e9)
        if any(low > high for low, high in zip(*self.crop, strict=True)):
            raise InputError(f"crop is {self.crop}; expected its lowest corner first")


def _check_triple(name: str, values: tuple[float, ...], low: float, high: float) -> None:
    if len(values) != 3:
        raise InputError(f"{name} has {len(values)} numbers; expected 3")
    for value in values:
        checks.number(name, value, low=low, high=high)


class Drawn(NamedTuple):
    """A picture on the host."""

    rgb: npt.NDArray[np.uint8]  # (h, w, 3)
    depth: Picture  # (h, w) distance of what is seen, in scene units; 0 where nothing is


class _Seen(NamedTuple):
    """A picture on the device, a row a pixel."""

    rgb: mx.array  # (pixels, 3) in [0, 1]
    depth: mx.array  # (pixels,)


class Pictures:
    """Draws what cameras see of one state of training."""

    def __init__(self, trainer: Trainer, state: TrainState, look: Look) -> None:
        """Takes no time: nothing is rendered or waited for."""
        self._trainer, self._state, self._look = trainer, state, look
        self._known = trainer.sampler.occupied(state.sampling)
        if self._known is not None:
            geometry, bits = self._known
            self._known = Occupied(geometry, cropped(bits, geometry, look.crop))

    def draw(self, camera: Camera, focus: float) -> Drawn:
        """The picture that `camera` takes.

        `focus` is the distance to the point that the camera orbits, in scene units. The depth
        map's colours end at twice that. Raises InputError unless it is positive.
        """
        checks.number("focus", focus, low=1e-9)
        seen: _Seen = getattr(self, f"_{self._look.mode}")(camera, focus)
        size = camera.lens.height, camera.lens.width
        rgb = (mx.clip(seen.rgb, 0.0, 1.0) * 255.0 + 0.5).astype(mx.uint8)
        mx.eval(rgb, seen.depth)
        return Drawn(np.array(rgb).reshape(*size, 3), np.array(seen.depth).reshape(size))

    @cached_property
    def _renderer(self) -> Renderer:
        if self._look.crop is not None:
            return self._trainer.renderer(self._state, self._occupied)
        return self._trainer.renderer(self._state, self._known)

    @property
    def _occupied(self) -> Occupied:
        if self._known is None:
            raise InputError(
                "crop and the modes occupancy and samples need an occupancy grid; the sampler of "
                "this run keeps none"
            )
        return self._known

    def _over(self, rgb: mx.array, opacity: mx.array) -> mx.array:
        return rgb * opacity[:, None] + (1.0 - opacity[:, None]) * mx.array(self._look.background)

    def _pixels(self, camera: Camera) -> tuple[mx.array, mx.array, mx.array]:
        return self._renderer.pixels(camera, self._look.background)

    def _colour(self, camera: Camera, _focus: float) -> _Seen:
        colour, _, depth = self._pixels(camera)
        return _Seen(exposed(colour, self._look.exposure), depth)

    def _depth(self, camera: Camera, focus: float) -> _Seen:
        _, opacity, depth = self._pixels(camera)
        nearness = 1.0 - depth / (2.0 * focus)
        # The step is steepest at the focus, which has nearly twice the contrast there.
        place = nearness**3 * (10.0 + nearness * (6.0 * nearness - 15.0))
        return _Seen(self._over(coloured(place, TURBO), opacity), depth)

    def _normals(self, camera: Camera, _focus: float) -> _Seen:
        _, opacity, depth = self._pixels(camera)
        rays = camera_rays(camera)
        position = rays.origin + depth[:, None] * rays.direction
        # About half a cell of an occupancy grid, whose cells grow beyond the unit cube.
        cells = self._known.geometry.resolution if self._known else CELLS
        reach = mx.maximum(from_centre(position), 0.5) / cells
        field, parameters = self._trainer.field, self._state.average
        facing = normals(lambda at: field.density(parameters, at), position, reach)
        return _Seen(self._over(0.5 + 0.5 * facing, opacity), depth)

    def _opacity(self, camera: Camera, _focus: float) -> _Seen:
        _, opacity, depth = self._pixels(camera)
        return _Seen(mx.broadcast_to(opacity[:, None], (opacity.shape[0], 3)), depth)

    def _occupancy(self, camera: Camera, _focus: float) -> _Seen:
        geometry, bits = self._occupied
        block = first_blocks(camera_rays(camera), bits, geometry)
        colour = mx.array(CASCADES)[cascade_of(block.cell, geometry) % len(CASCADES)]
        light = mx.array(FACES)[block.axis] * (1.0 - SHADES * _random_of(block.cell))
        return _Seen(self._over(colour * light[:, None], block.is_hit), block.depth)

    def _samples(self, camera: Camera, _focus: float) -> _Seen:
        geometry, bits = self._occupied
        first = first_samples(camera_rays(camera), bits, geometry)
        place = mx.log(1.0 + first.samples) / log(1.0 + geometry.most_intervals)
        return _Seen(self._over(coloured(place, INFERNO), first.samples > 0), first.distance)


def _random_of(cell: mx.array) -> mx.array:
    """A pseudo-random number in [0, 1) for each cell: Knuth's multiplicative hash."""
    mixed = cell.astype(mx.uint32) * mx.array(2654435761, mx.uint32)
    return (mixed >> 16).astype(mx.float32) / 2**16
