"""The viewer's images: the outputs of videos, two diagnostic outputs, and photos to compare.

    rgb        the field over the background
    depth      distance as in `Rendered`, from red at 0 to violet at twice the focus distance
    normal     the direction that surfaces face in scene axes, 0.5 + 0.5 normal as red, green, blue
    opacity    from black to white
    occupancy  the occupied cells as solid blocks: hue by cascade, brightness by the axis that the
               visible face is perpendicular to, with a small random part per cell
    samples    number of samples on the ray in occupied cells, on a logarithmic color map that ends
               at the largest number possible in the scene

A pixel depends on its own ray only, so strips of a image join without a seam. In all outputs but
`opacity` the background shows where the image is not opaque or the ray meets no occupied cell.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import NamedTuple

import mlx.core as mx
import numpy as np
import numpy.typing as npt
from PIL import Image

from nerfmac.app.run import Run
from nerfmac.app.scenes.images import decode
from nerfmac.app.video import RenderOptions, ViewRenderer, colors, over_background, to_bytes
from nerfmac.app.viewer.blocks import cascade_of, first_blocks, first_samples
from nerfmac.common import checks
from nerfmac.common.checks import InputError
from nerfmac.geometry.cameras import Camera
from nerfmac.geometry.color import over
from nerfmac.geometry.rays import camera_rays
from nerfmac.ops.march import Occupied
from nerfmac.rendering.color_map import INFERNO, colored
from nerfmac.rendering.metrics import psnr
from nerfmac.rendering.renderer import FloatImage
from nerfmac.training.state import TrainState
from nerfmac.training.trainer import Trainer

FACE_BRIGHTNESS = (0.8, 0.62, 1.0)
"""Brightness of cell faces perpendicular to x, y and z."""

CELL_VARIATION = 0.12
"""Largest difference in brightness between cells."""

CASCADE_COLORS = (
    (0.96, 0.72, 0.30),
    (0.40, 0.70, 0.90),
    (0.55, 0.80, 0.45),
    (0.90, 0.50, 0.65),
    (0.70, 0.60, 0.90),
)
"""sRGB of the cascades from the innermost outwards, repeated after the last."""


SURFACE_OPACITY = 0.5
"""Smallest opacity of a surface; what is fainter, such as haze, moves like the background."""


class Drawn(NamedTuple):
    """A image on the host."""

    rgb: npt.NDArray[np.uint8]  # (h, w, 3)
    depth: FloatImage  # (h, w) distance as in `Rendered`; 0 where nothing is seen
    is_surface: npt.NDArray[np.bool_]  # (h, w) whether the depth is that of a surface


class Images:
    """Draws images from cameras for one state of training. Creating one renders nothing."""

    def __init__(self, trainer: Trainer, state: TrainState, options: RenderOptions) -> None:
        self._options = options
        self._view = ViewRenderer(trainer, state, options)

    def draw(self, camera: Camera, focus: float) -> Drawn:
        """The image from `camera`.

        `focus`: distance of the point that the camera orbits, in scene units; colors of `depth`
        end at twice that and have their best contrast there. Raises `InputError` unless positive,
        and if the output or a crop needs an occupancy grid that the run's sampler lacks.
        """
        checks.number("focus", focus, low=1e-9)
        options = self._options
        if options.output == "occupancy":
            color, depth = self._occupancy(camera)
            is_surface = depth > 0.0
        elif options.output == "samples":
            color, depth = self._samples(camera)
            is_surface = depth > 0.0
        else:
            values, opacity, depth = self._view.render(camera)
            color = colors(values, opacity, options, (0.0, 2.0 * focus), is_eased=True)
            is_surface = opacity >= SURFACE_OPACITY
        size = camera.lens.height, camera.lens.width
        rgb = to_bytes(color)
        mx.eval(rgb, depth, is_surface)
        rest = (np.array(values).reshape(size) for values in (depth, is_surface))
        return Drawn(np.array(rgb).reshape(*size, 3), *rest)

    @property
    def _occupied(self) -> Occupied:
        if (occupied := self._view.occupied) is None:
            raise InputError(
                "the modes occupancy and samples need an occupancy grid; the sampler of this run "
                "keeps none"
            )
        return occupied

    def _occupancy(self, camera: Camera) -> tuple[mx.array, mx.array]:
        geometry, bits = self._occupied
        block = first_blocks(camera_rays(camera), bits, geometry)
        cascade = cascade_of(block.cell, geometry) % len(CASCADE_COLORS)
        light = mx.array(FACE_BRIGHTNESS)[block.axis] * (1.0 - CELL_VARIATION * _random(block.cell))
        color = mx.array(CASCADE_COLORS)[cascade] * light[:, None]
        return over_background(color, block.is_hit, self._options), block.depth

    def _samples(self, camera: Camera) -> tuple[mx.array, mx.array]:
        geometry, bits = self._occupied
        first = first_samples(camera_rays(camera), bits, geometry)
        fraction = mx.log(1.0 + first.samples) / log(1.0 + geometry.most_intervals)
        color = over_background(colored(fraction, INFERNO), first.samples > 0, self._options)
        return color, first.distance


def _random(cell: mx.array) -> mx.array:
    """A pseudo-random number in [0, 1) per cell: Knuth's multiplicative hash."""
    mixed = cell.astype(mx.uint32) * mx.array(2654435761, mx.uint32)
    return (mixed >> 16).astype(mx.float32) / 2**16


@dataclass(frozen=True, eq=False)
class Comparison:
    """The photo of training view `index`, for the page to compare with the rendering."""

    index: int
    name: str
    camera: Camera
    photo: npt.NDArray[np.uint8]  # (h, w, 3), sRGB, over the background

    @classmethod
    def of(cls, run: Run, index: int, background: tuple[float, float, float]) -> Comparison:
        """Read training view `index`. Raises `InputError` if the view or its file is missing."""
        frames = run.images().splits["train"]
        if not 0 <= index < len(frames):
            raise InputError(f"training view {index} is not there; the scene has {len(frames)}")
        frame, has_alpha = frames[index], run.images().has_alpha
        pixels = decode(frame.image, 4 if has_alpha else 3, frame.name)
        if has_alpha:
            blend = run.config.train.blend
            mixed = over(mx.array(pixels / np.float32(255)), mx.array(background), blend)
            pixels = (np.array(mixed) * 255.0 + 0.5).astype(np.uint8)
        return cls(index, frame.name, run.cameras[index], pixels)

    def psnr(self, rgb: npt.NDArray[np.uint8]) -> float:
        """PSNR in dB of the rendering `rgb` (h, w, 3); the photo is resized to its size."""
        height, width = rgb.shape[:2]
        target = self.photo
        if target.shape != rgb.shape:
            resized = Image.fromarray(target).resize((width, height), Image.Resampling.BOX)
            target = np.asarray(resized)
        return psnr(rgb / np.float32(255), target / np.float32(255))
