"""Exposure and its gradients equal their formulas, with and without a kernel."""

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.backend import kernels_disabled, repeatable
from nerfmac.ops.expose import expose
from tests.numerics import assert_matches

pytestmark = pytest.mark.usefixtures("run_by")

ROUNDOFF = 2.0**-24
VIEWS = 5


def decode(srgb: np.ndarray) -> np.ndarray:
    return np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)


def encode(light: np.ndarray) -> np.ndarray:
    curve = 1.055 * np.maximum(light, 1e-6) ** (1 / 2.4) - 0.055
    return np.where(light <= 0.0031308, 12.92 * light, curve)


def exposed(color, opacity, logarithms, view, background) -> np.ndarray:
    """The formula in float64."""
    color, opacity, logarithms = (np.array(a, np.float64) for a in (color, opacity, logarithms))
    factor = np.exp(logarithms - logarithms.mean(axis=0))[view]
    divisor = np.maximum(opacity, 1e-4)[:, None]
    light = np.minimum(factor * decode(color / divisor), 1)
    return divisor * encode(light) + (1 - opacity[:, None]) * background


def drawn(rays: int) -> dict[str, np.ndarray]:
    """Dark and bright colors of rays with any opacity, also 0; view 3 has no rays."""
    random = np.random.default_rng(rays)
    opacity = np.maximum(random.uniform(-0.1, 1, rays), 0)
    straight = random.uniform(size=(rays, 3)) ** 3
    view = random.integers(0, VIEWS - 1, rays)
    given = {
        "color": opacity[:, None] * straight,
        "opacity": opacity,
        "logarithms": random.normal(size=(VIEWS, 3)),
        "view": np.where(view == 3, VIEWS - 1, view),
        "background": random.uniform(size=(rays, 3)),
    }
    return {n: a.astype(np.int32 if n == "view" else np.float32) for n, a in given.items()}


def arrays(given: dict[str, np.ndarray]) -> list[mx.array]:
    return [mx.array(array) for array in given.values()]


def gradients(given: dict[str, np.ndarray], weights: np.ndarray) -> list[np.ndarray]:
    """Gradients of the weighted sum of the colors: of color, opacity, and logarithms."""
    *trained, view, background = arrays(given)

    def total(*trained: mx.array) -> mx.array:
        return (mx.array(weights) * expose(*trained, view, background)).sum()

    return [np.array(each) for each in mx.grad(total, argnums=(0, 1, 2))(*trained)]


@pytest.mark.parametrize("rays", [1, 31, 257, 1500])
def test_it_is_the_formula(rays):
    given = drawn(rays)
    assert_matches(expose(*arrays(given)), exposed(**given), rel=64 * ROUNDOFF, name="colors")
    black = exposed(**given | {"background": np.zeros((rays, 3))})
    assert_matches(expose(*arrays(given)[:4]), black, rel=64 * ROUNDOFF, name="premultiplied")


@pytest.mark.parametrize("rays", [2, 31, 257, 1500])
def test_its_gradients_are_differences_of_the_formula(rays):
    given = drawn(rays)
    # Colors that are not close to a limit, where the formula has a bend.
    given["opacity"] = 0.2 + 0.8 * given["opacity"]
    factor = np.exp(given["logarithms"] - given["logarithms"].mean(axis=0))[given["view"]]
    light = np.tile([0.1, 0.001, 4.0], (rays, 1)).astype(np.float32)
    given["color"] = given["opacity"][:, None] * encode(light / factor).clip(0, 1)
    light = factor * decode(given["color"] / given["opacity"][:, None])
    assert np.abs(light - 1).min() > 1e-4
    weights = np.random.default_rng(1).normal(size=(rays, 3)).astype(np.float32)
    d_color, d_opacity, d_logarithms = gradients(given, weights)

    def slopes(name: str, shift: np.ndarray) -> np.ndarray:
        wide = {n: a.astype(a.dtype if n == "view" else np.float64) for n, a in given.items()}
        ends = (exposed(**wide | {name: wide[name] + s * shift}) for s in (1e-6, -1e-6))
        return weights * -np.subtract(*reversed(list(ends))) / 2e-6

    want = [slopes("color", np.eye(3)[c]).sum(axis=1) for c in range(3)]
    assert_matches(d_color, np.stack(want, axis=1), rel=1e-4, name="d color")
    ones = np.ones(rays)
    assert_matches(d_opacity, slopes("opacity", ones).sum(axis=1), rel=1e-4, name="d opacity")
    units = (np.arange(VIEWS) == v for v in range(VIEWS))
    want = [slopes("logarithms", unit[:, None]).sum(axis=0) for unit in units]
    assert_matches(d_logarithms, np.stack(want), rel=1e-4, name="d logarithms")


def test_what_is_clipped_or_transparent_has_no_gradient():
    given = drawn(6)
    given["logarithms"] = np.log([[9.0], [1.0]] * np.ones((2, 3))).astype(np.float32)
    given["view"] = np.array([0, 0, 0, 1, 1, 1], np.int32)
    given["opacity"] = np.array([1, 0.5, 5e-5, 1, 0.5, 5e-5], np.float32)
    given["color"] = 0.9 * given["opacity"][:, None] * np.ones((6, 3), np.float32)
    d_color, d_opacity, _ = gradients(given, np.ones((6, 3), np.float32))
    assert (d_color[:2] == 0).all()
    assert (d_color[2:] > 0).all()
    behind = given["background"].sum(axis=1)
    assert d_opacity[:2] == pytest.approx(3 - behind[:2], rel=16 * ROUNDOFF)
    # The divisor is at its minimum, so the opacity only changes the background.
    assert d_opacity[[2, 5]] == pytest.approx(-behind[[2, 5]], rel=16 * ROUNDOFF)


def test_only_exposures_relative_to_their_mean_matter():
    given = drawn(300)
    brighter = given | {"logarithms": given["logarithms"] + np.float32(2)}
    got, want = (np.array(expose(*arrays(each))) for each in (brighter, given))
    assert got == pytest.approx(want, abs=64 * ROUNDOFF)
    *_, d_logarithms = gradients(given, np.ones((300, 3), np.float32))
    assert np.abs(d_logarithms).max() > 0.1
    assert d_logarithms.sum(axis=0) == pytest.approx(0, abs=1000 * ROUNDOFF)
    one = given | {"logarithms": given["logarithms"][:1], "view": 0 * given["view"]}
    assert not gradients(one, np.ones((300, 3), np.float32))[2].any()


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("name", ["color", "opacity", "logarithms", "slope"])
@pytest.mark.parametrize("straight", [0.1, 1.0])
def test_values_that_are_not_finite_are_not_hidden(straight, name, value):
    given, ray = drawn(700), 600
    given["opacity"][ray] = 0.5
    given["color"][ray] = 0.5 * straight
    given["logarithms"][0] = 1.0
    given["view"][ray] = 0
    given["slope"] = np.ones((700, 3), np.float32)
    given[name][0 if name == "logarithms" else ray] = value
    weights = given.pop("slope")

    def results() -> list[np.ndarray]:
        return [np.array(expose(*arrays(given))), *gradients(given, weights)]

    got = results()
    with kernels_disabled():
        want = results()
    for one, other in zip(got, want, strict=True):
        assert np.isfinite(one).all() == np.isfinite(other).all()
    assert not all(np.isfinite(each).all() for each in got[1:])


def test_gradients_are_reproducible():
    given, weights = drawn(1500), np.ones((1500, 3), np.float32)
    with repeatable():
        first, second = gradients(given, weights), gradients(given, weights)
    assert all((one == other).all() for one, other in zip(first, second, strict=True))


def test_a_compiled_function_has_the_same_gradients():
    *trained, view, background = arrays(drawn(300))

    def run(*trained: mx.array) -> tuple[mx.array, ...]:
        return mx.grad(lambda *t: expose(*t, view, background).sum(), argnums=(0, 1, 2))(*trained)

    for one, other in zip(run(*trained), mx.compile(run)(*trained), strict=True):
        assert_matches(other, np.array(one), rel=16 * ROUNDOFF, name="gradient")


def test_no_rays_have_no_colors_and_no_gradients():
    given = {name: a if name == "logarithms" else a[:0] for name, a in drawn(3).items()}
    assert expose(*arrays(given)).shape == (0, 3)
    assert not any(each.any() for each in gradients(given, np.zeros((0, 3), np.float32)))
