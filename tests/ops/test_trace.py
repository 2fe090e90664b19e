"""Whole rays traced in one pass, by their laws; the self-test compares them with the reference."""

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.common.checks import InputError
from nerfmac.geometry.bounds import Bounds
from nerfmac.geometry.rays import Rays
from nerfmac.ops.hash_encode import HashLevels
from nerfmac.ops.march import MarchGeometry
from nerfmac.ops.networks_shape import NetworksShape
from nerfmac.ops.trace import TraceGeometry, trace

pytestmark = pytest.mark.usefixtures("on_the_cpu")

GEOMETRY = TraceGeometry(
    MarchGeometry(Bounds(1.0), 16, 0.05, 3**0.5 / 128, 0.0),
    HashLevels(8, 10, 8, 1.3),
    NetworksShape(16, 32, 1, 1),
)


def arguments() -> dict[str, mx.array]:
    """A thin fog everywhere: rays leave it before their light has ended."""
    keys = mx.random.split(mx.random.key(5), 3)
    shape = GEOMETRY.networks
    return {
        "bits": mx.full((GEOMETRY.march.cells // 32,), 2**32 - 1, mx.uint32),
        "table": mx.random.normal((GEOMETRY.levels.entries, 2), key=keys[0]),
        "density_weights": 0.1 * mx.random.normal((shape.density.weights,), key=keys[1]),
        "color_weights": 0.3 * mx.random.normal((shape.color.weights,), key=keys[2]),
    }


def rays(count: int) -> dict[str, Rays]:
    origins = mx.array([[-0.6, 0.3, 0.2]])
    directions = mx.array([[0.9, 0.3, 0.1]])
    directions = directions / mx.linalg.norm(directions)
    shape = (count, 3)
    return {"rays": Rays(mx.broadcast_to(origins, shape), directions + mx.zeros(shape))}


@pytest.mark.parametrize("count", [2, 16, 17, 100, 700])
def test_rays_that_are_alike_see_alike_however_many(count):
    # They end all at once, so that no ray is active when the next ones begin.
    (one,), (first,), (far,) = map(np.array, trace(**rays(1), **arguments(), geometry=GEOMETRY))
    assert 0.05 < first < 0.9, "fog"
    color, opacity, depth = map(np.array, trace(**rays(count), **arguments(), geometry=GEOMETRY))
    assert (color == one).all()
    assert (opacity == first).all()
    assert (depth == far).all()


def test_the_images_width_changes_nothing_but_the_order():
    spread = mx.random.normal((96, 3), key=mx.random.key(1)) * mx.array([0.02, 0.1, 0.2])
    given = rays(96) | arguments()
    origins, directions = given["rays"]
    directions = directions + spread
    directions /= mx.linalg.norm(directions, axis=1, keepdims=True)
    given["rays"] = Rays(origins, directions)
    in_order = trace(**given, geometry=GEOMETRY)
    for width in (8, 24, 96):
        for got, want in zip(trace(**given, geometry=GEOMETRY, width=width), in_order, strict=True):
            np.testing.assert_allclose(np.array(got), np.array(want), rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("origins", mx.zeros((4, 2))),
        ("directions", mx.zeros((5, 3))),
        ("bits", mx.zeros((7,), mx.uint32)),
        ("bits", mx.zeros((GEOMETRY.march.cells // 32,), mx.int32)),
        ("table", mx.zeros((3, 2))),
        ("density_weights", mx.zeros((3,))),
        ("color_weights", mx.zeros((3,))),
    ],
)
def test_what_does_not_fit_is_refused_by_name(name, wrong):
    given = rays(4) | arguments()
    if name in ("origins", "directions"):
        given["rays"] = given["rays"]._replace(**{name.removesuffix("s"): wrong})
    else:
        given[name] = wrong
    with pytest.raises(InputError, match=f"^{name} "):
        trace(**given, geometry=GEOMETRY)
