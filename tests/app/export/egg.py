"""A field with a known surface: an egg with a cavity, and a small blob next to it.

The shapes are off-center, and no two axes are alike. Density is an exponential of the distance from
the surface, measured in the radii of the egg, because networks end in an exponential.
"""

import mlx.core as mx
import numpy as np

from nerfmac import FieldOutput, Method, Run
from tests.app.viewer.analytic import Known
from tests.scene_factory import CONFIG

MIDDLE = np.array([0.53, 0.46, 0.51])
RADII = np.array([0.21, 0.13, 0.16])
POINTED = 0.25  # how much the egg's end in +x is pointed
HOLLOW = 0.3  # of the egg's size
CRUMB = np.array([0.36, 0.63, 0.44])
CRUMB_RADIUS = 0.015
ON_SURFACE = 100.0  # density per scene unit
STEEPNESS = 30.0


class Egg(Known):
    def density_at(self, parameters, position):
        size = size_of(position, mx)
        crumb = 1.0 - mx.linalg.norm(position - mx.array(CRUMB, mx.float32), axis=-1) / CRUMB_RADIUS
        egg = mx.minimum(1.0 - size, size - HOLLOW)
        return ON_SURFACE * mx.exp(STEEPNESS * mx.minimum(mx.maximum(egg, 0.3 * crumb), 0.2))

    def __call__(self, parameters, samples, rays):
        density = self.density_at(parameters, samples.position)
        # The color is that of the position, computed from everything that the field receives.
        origin, direction = rays.origin[samples.ray], rays.direction[samples.ray]
        return FieldOutput(density, color_of(origin + samples.distance[:, None] * direction, mx))


def size_of(position, library=np):
    """Return the scale of an egg with `position` (..., 3) on its surface, relative to its size."""
    place = (position - library.array(MIDDLE)) / library.array(RADII)
    return library.sqrt((place * place).sum(axis=-1)) + POINTED * place[..., 0]


def color_of(position, library=np):
    """Return an sRGB color in [0, 1] that identifies a position."""
    x, y, z = (position[..., axis] for axis in range(3))
    return library.stack([x, 0.2 + 0.5 * y, 0.9 - 0.7 * z], axis=-1)


def slope_of(position):
    """The gradient (..., 3) of `size_of`."""
    place = (position - MIDDLE) / RADII
    slope = place / np.linalg.norm(place, axis=-1, keepdims=True)
    return (slope + [POINTED, 0.0, 0.0]) / RADII


def distance_to(position, size=1.0):
    """About how far `position` (..., 3) is from the egg's surface, signed, in scene units."""
    return (size_of(position) - size) / np.linalg.norm(slope_of(position), axis=-1)


def egg_run(scene, field=None):
    """A run of the egg, not trained, on `scene`; all cells are occupied."""
    run = Run.begin(scene, CONFIG, method=Method(field=field or Egg))
    run.state.sampling["bits"] = mx.full(run.state.sampling["bits"].shape, 2**32 - 1, mx.uint32)
    return run
