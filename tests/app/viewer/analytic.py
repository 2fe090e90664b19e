"""Fields known in closed form, behind a trainer's name, for the tests of the viewer's images."""

from collections.abc import Mapping
from math import sqrt

import mlx.core as mx
import numpy as np

from nerfmac import Bounds, Camera, Field, FieldOutput, Lens, Method, Model, ParameterSpec
from nerfmac.config import PRESETS, override
from nerfmac.ops.march import MarchGeometry
from nerfmac.ops.occupancy_update import pack_bits
from nerfmac.sampling.occupancy import MarchingSampler
from nerfmac.training.resolve import settled
from nerfmac.training.state import TrainState
from tests.bricks import in_bricks

CELLS = 16
CUBE = MarchGeometry(Bounds(1.0), CELLS, 0.1, sqrt(3) / 256, 0.0)
SCENE = MarchGeometry(Bounds(3.1), CELLS, 0.1, sqrt(3) / 256, 1 / 256)
"""Three cascades, the outermost cut off by the scene's cube, within cells."""
LENS = Lens(28, 20, 42.0, 46.0, 13.0, 11.0)
FRONT = Camera.look_at((0.35, 0.6, 2.0), (0.5, 0.5, 0.5), (0.1, 1.0, 0.0), LENS)
SIDE = Camera.look_at((-1.1, 0.2, 0.9), (0.5, 0.55, 0.45), (0.0, 0.3, 1.0), LENS)
BELOW = Camera.look_at((0.8, -0.9, -0.3), (0.45, 0.5, 0.5), (1.0, 0.0, 0.2), LENS)
FOCUS = 1.4


class Known(Field):
    parameter_specs: Mapping[str, ParameterSpec] = {}

    def __init__(self, *_):
        pass

    def init(self, key):
        return {}


class Egg(Known):
    """An ellipsoid, ever denser toward its middle, that is redder to the right."""

    center = (0.55, 0.4, 0.6)
    radii = (0.35, 0.2, 0.25)

    def __call__(self, parameters, samples, rays):
        x, y, z = (samples.position[:, axis] for axis in range(3))
        color = mx.clip(mx.stack([x, 0.4 * y, 0.1 + 0.2 * z], axis=1), 0.0, 1.0)
        return FieldOutput(self.density_at(parameters, samples.position), color)

    def density_at(self, _, position):
        place = (position - mx.array(self.center)) / mx.array(self.radii)
        return 60.0 * mx.exp(20.0 * (1.0 - mx.sqrt(mx.square(place).sum(axis=1))))


class RippledEgg(Egg):
    """The same with ripples far finer than a cell, and steeper than its own slope."""

    def density_at(self, parameters, position):
        return super().density_at(parameters, position) * mx.exp(
            0.3 * mx.sin(500.0 * position[:, 1])
        )


class Boxes(Known):
    """Opaque boxes of one color each."""

    def __init__(self, *boxes):
        self.boxes = boxes  # low, high, color

    def __call__(self, parameters, samples, rays):
        color = mx.zeros_like(samples.position)
        for low, high, paint in self.boxes:
            inside = _is_inside(samples.position, low, high)[:, None]
            color = mx.where(inside, mx.array(paint), color)
        return FieldOutput(self.density_at(parameters, samples.position), color)

    def density_at(self, _, position):
        density = mx.zeros(len(position))
        for low, high, _ in self.boxes:
            density = mx.where(_is_inside(position, low, high), 5e4, density)
        return density


def _is_inside(position, low, high):
    return ((position > mx.array(low)) & (position < mx.array(high))).all(axis=1)


def known(field: Field, geometry: MarchGeometry) -> Model:
    """A model of the field; `geometry` determines the samples."""
    changes = {"max_samples": 4096, "render_step_divisor": 1}
    config = settled(override(PRESETS["tiny"], march=changes), geometry.bounds)
    sampler = MarchingSampler(config.march, config.occupancy, geometry.bounds, field.density)
    sampler.geometry = geometry
    return Model(config, geometry.bounds, method=Method(lambda *_: field, lambda *_: sampler))


def state(geometry: MarchGeometry, occupied: np.ndarray | None = None, **trees) -> TrainState:
    """A state with the given `occupied` cells, (cascades, z, y, x) bool; by default all cells."""
    if occupied is None:
        occupied = np.ones(geometry.cells, bool)
    cells = occupied.reshape(-1, *3 * (geometry.resolution,))
    values = mx.array(in_bricks(cells).astype(np.float32))
    sampling = {"values": values, "bits": pack_bits(values, mx.array([0.5]))}
    return TrainState({}, trees.get("average", {}), {}, sampling, {}, mx.array(1.0))


def box_hits(
    origin: np.ndarray, direction: np.ndarray, low: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where rays (..., 3) enter and leave a box, and the axis across which they enter."""
    a, b = (low - origin) / direction, (high - origin) / direction
    near = np.minimum(a, b)
    return near.max(axis=-1), np.maximum(a, b).min(axis=-1), near.argmax(axis=-1)


def cell_boxes(geometry: MarchGeometry) -> tuple[np.ndarray, np.ndarray]:
    """Lowest and highest corners (cascades, z, y, x, 3) of all cells."""
    z, y, x = np.mgrid[: geometry.resolution, : geometry.resolution, : geometry.resolution]
    index = np.stack([x, y, z], axis=-1)
    sizes = [2.0**cascade for cascade in range(geometry.bounds.cascades)]
    low = np.stack([0.5 + size * (index / geometry.resolution - 0.5) for size in sizes])
    side = np.array(sizes).reshape(-1, 1, 1, 1, 1) / geometry.resolution
    return low, low + side


def srgb_to_linear(values: np.ndarray) -> np.ndarray:
    """IEC 61966-2-1, in float64."""
    values = np.asarray(values, np.float64)
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def on_map(values: np.ndarray, anchors: tuple) -> np.ndarray:
    """(..., 3) colors by NumPy's interpolation."""
    ends = np.linspace(0.0, 1.0, len(anchors))
    return np.stack([np.interp(values, ends, line) for line in np.array(anchors).T], axis=-1)
