"""Alpha compositing, against the rendering equation summed sample by sample in float64."""

from typing import NamedTuple

import mlx.core as mx
import numpy as np
import pytest
from numerics import assert_matches

from nerfmac.geometry.samples import Samples, Thinning
from nerfmac.ops.composite import composite

pytestmark = pytest.mark.usefixtures("run_by")

ROUNDOFF = 2.0**-24
COUNTS = (0, 1, 17, 0, 33, 5, 0)
DEAD = 6  # slots behind the last ray's


def starts(counts) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)


def scene(thickness: float = 0.3, counts=COUNTS) -> dict[str, np.ndarray]:
    """Random samples with a mean optical depth of `thickness`; distances grow along each ray."""
    random, slots = np.random.default_rng(5), sum(counts) + DEAD
    widths = random.uniform(0.01, 0.03, slots)
    place = np.concatenate([*[np.arange(count) for count in counts], np.zeros(DEAD)])
    return {
        "density": random.uniform(0.0, 2.0, slots) * thickness / 0.02,
        "color": random.uniform(0.0, 1.0, (slots, 3)) * [1.0, 0.5, 0.2],
        "distances": 0.4 + 0.03 * place + 0.5 * widths,
        "widths": widths,
        "ray_start": starts(counts),
    }


class Seen(NamedTuple):
    color: mx.array
    opacity: mx.array
    depth: mx.array


def composited(
    density, color, distances, widths, ray_start, thinning=None, expected=None, background=None
) -> Seen:
    nothing = mx.zeros((0, 3))
    samples = Samples(nothing, distances, widths, nothing, ray_start, nothing, thinning)
    return Seen(*composite(density, color, samples, expected, background)[:3])


def on_device(values: dict[str, np.ndarray]) -> dict[str, mx.array]:
    return {
        name: mx.array(each, mx.int32 if name == "ray_start" else mx.float32)
        for name, each in values.items()
    }


def run(values: dict[str, np.ndarray]) -> list[np.ndarray]:
    return [np.array(each, np.float64) for each in composited(**on_device(values))]


def summed(density, color, distances, widths, ray_start):
    """The oracle: color, opacity and depth of each ray."""
    rays = len(ray_start) - 1
    total, opacity, depth = np.zeros((rays, 3)), np.zeros(rays), np.zeros(rays)
    for ray in range(rays):
        light = 1.0
        for i in range(ray_start[ray], ray_start[ray + 1]):
            if light < 1e-4:
                break
            weight = light * (1.0 - np.exp(-density[i] * widths[i]))
            total[ray] += weight * color[i]
            opacity[ray] += weight
            depth[ray] += weight * distances[i]
            light -= weight
    return total, opacity, depth


RESULTS = ("color", "opacity", "depth")


@pytest.mark.parametrize("thickness", [0.01, 0.3, 5.0])
def test_results_are_the_rendering_equations_sums(thickness):
    values = scene(thickness)
    for name, got, want in zip(RESULTS, run(values), summed(**values), strict=True):
        assert_matches(got, want, rel=4 * 33 * ROUNDOFF, name=name)


@pytest.mark.parametrize("place", [0, 9, 16])
def test_an_opaque_wall_hides_what_is_behind_and_its_distance_is_the_depth(place):
    values = scene(0.0, counts=(17,))
    wall_color = values["color"][place].copy()
    values["density"][place] = 1e5
    values["density"][place + 1 : 17] = 50.0
    values["color"][place + 1 :] = 1e6
    color, opacity, depth = run(values)
    assert color[0] == pytest.approx(wall_color, rel=8 * ROUNDOFF)
    assert opacity[0] == 1.0
    assert depth[0] == pytest.approx(values["distances"][place], rel=8 * ROUNDOFF)


def test_an_empty_ray_sees_nothing_at_all():
    for counts in (COUNTS, (0, 0)):
        empty = np.array(counts) == 0
        for name, got in zip(RESULTS, run(scene(counts=counts)), strict=True):
            assert (got[empty] == 0).all(), name
            assert (got[~empty] != 0).all(), name


def test_matter_that_lets_no_light_through_has_no_gradient_in_its_density():
    # A rounding error there, times a large density, would make it denser without end.
    values = scene()
    density = values["density"].astype(np.float32)
    density[::3] = 3e6
    mixed = np.random.default_rng(4).normal(size=(len(COUNTS), 5)).astype(np.float32)

    def weighed(density: mx.array) -> mx.array:
        seen = composited(**on_device(values) | {"density": density})
        parts = [seen.color, seen.opacity[:, None], seen.depth[:, None]]
        return (mx.concatenate(parts, axis=1) * mx.array(mixed)).sum()

    slopes = np.array(mx.grad(weighed)(mx.array(density)))
    assert not slopes[::3].any()
    assert slopes.any()


@pytest.mark.parametrize(("left", "is_seen"), [(1.1e-4, True), (0.9e-4, False)])
def test_a_ray_ends_before_the_sample_that_too_little_light_reaches(left, is_seen):
    values = scene(counts=(2,))
    values["density"][:2] = -np.log(left) / values["widths"][0], 500.0
    values["color"][:2] = [1.0, 0.0, 0.0], [0.0, 1e4, 0.0]
    color, opacity, _ = run(values)
    assert (color[0, 1] > 0) == is_seen
    assert opacity[0] == pytest.approx(1.0 if is_seen else 1.0 - left, abs=1e-5)

    def brightness(density: mx.array) -> mx.array:
        return composited(**on_device(values) | {"density": density}).color.sum()

    slope = np.array(mx.grad(brightness)(on_device(values)["density"]))
    assert (slope[1] != 0) == is_seen


def test_gradients_are_the_finite_differences_through_every_result():
    values = scene(0.25)
    # One ray ends early, and its end is not where a difference would cross it.
    values["density"][35:38] *= 40.0
    random, rays = np.random.default_rng(6), len(COUNTS)
    mixes = [random.normal(size=shape) for shape in ((rays, 3), (rays,), (rays,))]

    def loss(changed: dict[str, np.ndarray]) -> float:
        return sum(
            float((m * r).sum()) for m, r in zip(mixes, summed(**values | changed), strict=True)
        )

    def combined(density: mx.array, color: mx.array) -> mx.array:
        results = composited(**on_device(values) | {"density": density, "color": color})
        weighted = [
            (mx.array(m, mx.float32) * r).sum() for m, r in zip(mixes, results, strict=True)
        ]
        return mx.stack(weighted).sum()

    device = on_device(values)
    got = mx.grad(combined, argnums=(0, 1))(device["density"], device["color"])
    for name, gradient in zip(("density", "color"), got, strict=True):
        want = np.zeros_like(values[name])
        for index in np.ndindex(want.shape):
            step = np.zeros_like(want)
            step[index] = 1e-4
            ahead, behind = (loss({name: values[name] + sign * step}) for sign in (1, -1))
            want[index] = (ahead - behind) / 2e-4
        assert 35 < np.count_nonzero(want) < want.size - 10
        assert_matches(gradient, want, rel=16 * 33 * ROUNDOFF, name=f"d {name}")
        assert not np.array(gradient)[sum(COUNTS) :].any(), "a dead slot has a gradient"


def omitting(counts=COUNTS) -> dict[str, np.ndarray]:
    """Possible results of thinning the rays of `scene`, and expected colors."""
    random, slots = np.random.default_rng(8), sum(counts) + DEAD
    omitted = np.concatenate([np.cumsum(random.uniform(0.0, 0.03, n)) for n in (*counts, DEAD)])
    return {
        "inverse_probability": 2.0 ** random.integers(0, 6, slots),
        "omitted": omitted,
        "ray_omitted": random.uniform(1.0, 2.0, len(counts)),
        "expected": random.uniform(0.0, 1.0, (len(counts), 3)),
    }


def thinned_sums(values, omitting, density):
    """The oracle for thinned rays; its gradient in `density` counts 1 / p times."""
    begin, rays = values["ray_start"], len(COUNTS)
    total, opacity, depth = np.zeros((rays, 3)), np.zeros(rays), np.zeros(rays)
    known = values["density"] * values["widths"]
    scale = omitting["inverse_probability"]
    changed = known + (density - values["density"]) * values["widths"] * scale
    for ray in range(rays):
        optical, reached = 0.0, 0.0
        for i in range(begin[ray], begin[ray + 1]):
            reached = np.exp(-omitting["omitted"][i] - optical)
            assert reached > 1e-4, "the ray ends"
            weight = reached * -np.expm1(-density[i] * values["widths"][i]) * scale[i]
            total[ray] += weight * (values["color"][i] - omitting["expected"][ray])
            depth[ray] += weight * values["distances"][i]
            optical += changed[i]
        opacity[ray] = -np.expm1(-optical - omitting["ray_omitted"][ray])
    return total + opacity[:, None] * omitting["expected"], opacity, depth


def thinned_arguments(known: dict[str, np.ndarray]) -> dict[str, object]:
    parts = {name: mx.array(each, mx.float32) for name, each in known.items()}
    return {"expected": parts.pop("expected"), "thinning": Thinning(**parts)}


def test_thinned_rays_have_the_transmittance_of_whole_ones_and_scaled_gradients():
    values, known = scene(0.05), omitting()
    mixes = [np.random.default_rng(6).normal(size=s) for s in ((7, 3), (7,), (7,))]
    device = on_device(values) | thinned_arguments(known)
    want = thinned_sums(values, known, values["density"])
    for name, got, each in zip(RESULTS, composited(**device), want, strict=True):
        assert_matches(got, each, rel=8 * 33 * ROUNDOFF, name=name)

    def combined(density: mx.array) -> mx.array:
        results = composited(**device | {"density": density})
        weighted = (mx.array(m, mx.float32) * r for m, r in zip(mixes, results, strict=True))
        return mx.stack([each.sum() for each in weighted]).sum()

    slope = np.zeros(len(values["density"]))
    for i in range(sum(COUNTS)):
        step = np.where(np.arange(len(slope)) == i, 1e-4, 0.0)
        ahead, behind = (
            thinned_sums(values, known, values["density"] + sign * step) for sign in (1, -1)
        )
        slope[i] = sum((m * (a - b)).sum() for m, a, b in zip(mixes, ahead, behind, strict=True))
    got = mx.grad(combined)(device["density"])
    assert_matches(got, slope / 2e-4, rel=64 * 33 * ROUNDOFF, name="d density")


@pytest.mark.parametrize("is_thinned", [False, True])
def test_light_of_the_background_passes_through_each_ray(is_thinned):
    device = on_device(scene(0.1)) | (thinned_arguments(omitting()) if is_thinned else {})
    random = np.random.default_rng(9)
    background, mix = (mx.array(random.uniform(size=(7, 3)), mx.float32) for _ in range(2))

    def behind(density, color, is_blended_later):
        own = {} if is_blended_later else {"background": background}
        seen = composited(**device | {"density": density, "color": color} | own)
        return seen.color + is_blended_later * (1.0 - seen.opacity[:, None]) * background

    def results(is_blended_later):
        def loss(density, color):
            return (mix * behind(density, color, is_blended_later)).sum()

        arrays = device["density"], device["color"]
        return behind(*arrays, is_blended_later), *mx.grad(loss, argnums=(0, 1))(*arrays)

    names = "color", "d density", "d color"
    for name, got, want in zip(names, results(False), results(True), strict=True):
        assert_matches(got, np.array(want, np.float64), rel=16 * 33 * ROUNDOFF, name=name)


@pytest.mark.parametrize("rubbish", [1e30, -7.0, np.nan, np.inf])
def test_dead_slots_do_not_matter_and_get_no_gradient(rubbish):
    clean, dirty = scene(), scene()
    for name in ("density", "color", "distances", "widths"):
        dirty[name][sum(COUNTS) :] = rubbish
    for name, got, want in zip(RESULTS, run(dirty), run(clean), strict=True):
        assert (got == want).all(), name

    def slopes(values: dict[str, np.ndarray]) -> list[np.ndarray]:
        device = on_device(values)

        def loss(density: mx.array, color: mx.array) -> mx.array:
            seen = composited(**device | {"density": density, "color": color})
            return mx.square(seen.color).sum() + seen.opacity.sum() + seen.depth.sum()

        d = mx.grad(loss, argnums=(0, 1))(device["density"], device["color"])
        return [np.array(each) for each in d]

    for got, want in zip(slopes(dirty), slopes(clean), strict=True):
        assert (got == want).all()
        assert not got[sum(COUNTS) :].any()
