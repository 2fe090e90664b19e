"""The peer in PyTorch keeps the samples that nerfmac keeps: those that light reaches."""

import mlx.core as mx
import numpy as np
import pytest
from bricks import in_bricks
from numerics import assert_matches
from ops.marching import grid, packed, some_rays
from scene_factory import CONFIG

from nerfmac.backend import choose_device, kernels_disabled
from nerfmac.common import FAR_DISTANCE
from nerfmac.config import override
from nerfmac.fields.encoded import EncodedField
from nerfmac.fields.encodings import encoding_of
from nerfmac.geometry import Bounds, Rays, Viewpoints
from nerfmac.ops.march import march
from nerfmac.ops.visibility import visible_cells
from nerfmac.sampling.occupancy import MarchingSampler
from nerfmac.training.resolve import settled

torch = pytest.importorskip("torch", reason="PyTorch is not installed; `pip install torch`")

from torch_peer.field import TorchField  # noqa: E402
from torch_peer.march import Marcher  # noqa: E402
from torch_peer.reach import ReachSampler  # noqa: E402
from torch_peer.tests.torch_arrays import EPSILON, in_torch, parameters_of, uncompiled  # noqa: E402 - they import torch

RAYS = 200


@pytest.fixture(autouse=True)
def on_the_cpu():
    choose_device("cpu")


def rays_in(geometry):
    """RAYS rays; the first misses the cube, the second comes from inside."""
    rays = some_rays(geometry, RAYS)
    rays[0][:2] = [[9.0, 9.0, 9.0], [0.5, 0.5, 0.5]]
    rays[1][:2] = [[1.0, 0.0, 0.0], [0.0, 0.6, 0.8]]
    return rays


def both_sample(extent, slots, candidates):
    """nerfmac's samples, the peer's, and how many samples each ray has in occupied space."""
    sizes = {"max_samples": slots, "march_factor": candidates, "thin_below": 0.0}
    config = settled(override(CONFIG, march=sizes), Bounds(extent))
    parameters = parameters_of(config, extent, np.random.default_rng(3))
    parameters["density"] *= 2.0  # more is opaque
    sampler = MarchingSampler(
        config.march,
        config.occupancy,
        Bounds(extent),
        EncodedField(encoding_of(config, Bounds(extent)), config.networks).density,
    )
    is_set, rays = grid(sampler.geometry, 0.4), rays_in(sampler.geometry)
    origins, directions, jitter = map(mx.array, rays)
    arrays = {name: mx.array(values) for name, values in parameters.items()}
    with kernels_disabled():
        state = {"bits": packed(is_set)}
        ours = sampler.sample(
            arrays, state, Rays(origins, directions), mx.stack([jitter, jitter], axis=1)
        )
        marched = march(origins, directions, jitter, sampler._occupied(state), 2).wanted
    theirs = TorchField(config, extent, parameters)
    sample = ReachSampler(Marcher(sampler.geometry, uncompiled), config.march, uncompiled)
    occupied = torch.from_numpy(in_bricks(is_set))
    got = sample(*in_torch(rays), occupied, lambda position: theirs.density(position)[0])
    assert float(got.demand) == pytest.approx(float(ours.mean_samples_per_ray), rel=1e-6)
    return ours.samples, got, np.array(marched)


def assert_same(got, want):
    np.testing.assert_array_equal(got.wanted, np.array(want.wanted))
    np.testing.assert_array_equal(got.fits, np.array(want.fits))
    is_alive = got.place.numpy() >= 0
    counts = np.bincount(got.ray.numpy()[is_alive], minlength=RAYS)
    ray_start = np.array(want.ray_start)
    np.testing.assert_array_equal(np.append(0, counts.cumsum()), ray_start)
    assert int(got.used) == ray_start[-1]
    np.testing.assert_array_equal(got.ray, np.array(want.ray))
    place = np.concatenate([np.arange(count) for count in counts])
    np.testing.assert_array_equal(got.place[: len(place)], place)
    assert not is_alive[len(place) :].any()
    # A width is the difference of two distances a hundred times as large.
    for part, factor in (("position", 64), ("distance", 64), ("width", 6400)):
        values = getattr(got, part).numpy()
        assert_matches(values, getattr(want, part), rel=factor * EPSILON, name=part)


@pytest.mark.parametrize("extent", [1.0, 2.5])
def test_a_ray_s_samples_end_where_its_light_does(extent):
    want, got, marched = both_sample(extent, slots=2**14, candidates=1)
    assert marched.sum() < 2**14
    wanted = np.array(want.wanted)
    assert (wanted <= marched).all()
    assert 0.1 < (wanted < marched).mean() < 0.9
    assert_same(got, want)


def test_rays_that_do_not_fit_into_the_slots_get_no_samples():
    want, got, marched = both_sample(1.0, slots=2**11, candidates=8)
    assert marched.sum() < 8 * 2**11
    assert 0 < np.array(want.fits).sum() < RAYS
    assert_same(got, want)


def test_rays_that_do_not_fit_into_the_candidates_get_no_samples():
    want, got, marched = both_sample(1.0, slots=2**11, candidates=1)
    kept, is_late = np.diff(np.array(want.ray_start)), marched.cumsum() > 2**11
    assert kept.sum() < 2**11, "there are slots left for some of the late rays"
    assert (marched[is_late] > 0).any()
    assert (kept[is_late] == 0).all()
    assert (kept[~is_late] > 0).any()
    assert (kept[~is_late] < marched[~is_late]).any()
    assert_same(got, want)


def slanted(position):
    """Density (points,) at `position` (points, 3): no two directions are alike."""
    return 5.0 * np.exp(position @ np.array([1.0, -3.0, 5.0], np.float32))


@pytest.mark.parametrize(("extent", "steps", "all_fit"), [(1.0, 128, True), (2.5, 96, False)])
def test_light_gets_to_the_same_cells(extent, steps, all_fit, monkeypatch):
    config = settled(override(CONFIG, march={"steps": steps, "cone": 1 / 256}), Bounds(extent))
    sampler = MarchingSampler(
        config.march,
        config.occupancy,
        Bounds(extent),
        lambda _, samples, rays: mx.array(slanted(np.array(samples.position))),
    )
    is_set, rays = grid(sampler.geometry, 0.4), rays_in(sampler.geometry)
    asked = {}

    def record(rays, jitter, until, geometry):
        asked.update(jitter=jitter, until=until, lit=visible_cells(rays, jitter, until, geometry))
        return asked["lit"]

    monkeypatch.setattr("nerfmac.sampling.occupancy.visible_cells", record)
    monkeypatch.setattr("torch_peer.march._AT_ONCE", 2**14)  # so that there are several parts
    state = sampler.init([]) | {"bits": packed(is_set)}
    with kernels_disabled():
        through, rays_of = Viewpoints.of(None, 0.01, 0.0).through, Rays(*map(mx.array, rays[:2]))
        sampler.update({}, state, rays_of, through, mx.random.key(2), 1)
    until, lit = np.array(asked["until"]), np.array(asked["lit"])
    fits = until > 0.0
    assert fits.all() == all_fit
    assert fits.mean() > 0.2
    assert 0.2 < (until[fits] < FAR_DISTANCE).mean() < 0.8
    sample = ReachSampler(Marcher(sampler.geometry, uncompiled), config.march, uncompiled)
    got = sample.lit(
        *in_torch([*rays[:2], asked["jitter"], in_bricks(is_set)]),
        lambda position: torch.from_numpy(slanted(position.numpy())),
    )
    np.testing.assert_array_equal(got, lit)
