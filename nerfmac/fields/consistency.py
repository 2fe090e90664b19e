"""Comparison of the densities that a custom field returns: `Field.density` and `Field.__call__`."""

import mlx.core as mx

from nerfmac.common import InputError
from nerfmac.fields.field import Field, Parameters, evaluated
from nerfmac.geometry import Bounds, Viewpoints

POINTS = 64
TRAIN_FRAC = 0.3  # Completed fraction of the training at which the densities are compared.
# Maximum mean difference of the densities, relative to the larger density. Half precision causes
# smaller differences.
DIFFERENCE = 0.02
# Standard deviation of the random numbers that are added to the parameters. With their initial
# values, the densities of most fields are nearly the same everywhere.
MOVED = 0.1


def check_density(
    field: Field, parameters: Parameters, bounds: Bounds, viewpoints: Viewpoints
) -> None:
    """Compare the densities at 64 random points, with the given and with changed parameters.

    Marching, thinning, and exports use `density`, and images are rendered with `__call__`.

    Args:
        field: Field to check.
        parameters: Parameters of the field.
        bounds: The scene cube, which contains the points.
        viewpoints: Training cameras, from which the points are seen.

    Raises:
        InputError: If the densities have different shapes or values.
    """
    if type(field).density is Field.density:
        return
    low, high = (mx.array(corner, mx.float32) for corner in bounds.corners)
    keys = mx.random.split(mx.random.key(0), len(parameters) + 1)
    position = low + (high - low) * mx.random.uniform(shape=(POINTS, 3), key=keys[0])
    samples, rays = viewpoints._replace(train_frac=TRAIN_FRAC).through(position)
    # The views are those of training rays, so that a density that depends on the view is found.
    rays = rays._replace(view=samples.ray % len(viewpoints.position))
    moved = {
        name: values + MOVED * mx.random.normal(values.shape, key=key)
        for (name, values), key in zip(parameters.items(), keys[1:], strict=True)
    }
    for each in (parameters, moved):
        rendered = evaluated(field, each, samples, rays).density
        _compare(type(field).__name__, field.density(each, samples, rays), rendered)


def _compare(name: str, marched: mx.array, rendered: mx.array) -> None:
    if marched.shape != rendered.shape:
        raise InputError(
            f"{name}.density returns an array of the shape {marched.shape}; expected "
            f"{rendered.shape}, the shape of the density of {name}.__call__"
        )
    is_finite = mx.isfinite(marched) & mx.isfinite(rendered)
    one, other = (mx.where(is_finite, each, 0.0) for each in (marched, rendered))
    difference, scale = mx.abs(one - other).mean(), mx.maximum(one, other).mean()
    if float(difference) > DIFFERENCE * float(scale):
        larger = "density" if float(one.mean()) > float(other.mean()) else "__call__"
        raise InputError(
            f"the density of {name}.density is {float(one.mean()):.3g} at {POINTS} random points, "
            f"and that of {name}.__call__ is {float(other.mean()):.3g}; expected the same density, "
            f"but that of {name}.{larger} is larger: correct {name}.density, or remove it, so that "
            f"nerfmac derives it from {name}.__call__"
        )
