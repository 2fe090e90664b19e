"""Which samples a step's slots hold, and the near plane in front of training cameras."""

from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest

from nerfmac import Bounds, EncodedField, Rays, Samples
from nerfmac.common.constants import FAR_DISTANCE, NEVER_OCCUPIED
from nerfmac.config import override
from nerfmac.config.sampling import NEAR
from nerfmac.fields.encodings import encoding_of
from nerfmac.geometry import Viewpoints
from nerfmac.ops.composite import composite
from nerfmac.ops.march import Occupied, cell_of, march
from nerfmac.ops.uniform import uniform
from nerfmac.ops.visibility import termination_distances, visible_cells
from nerfmac.sampling.occupancy import UPDATE_SAMPLES, MarchingSampler, Occupancy
from nerfmac.training.resolve import settled
from tests.ops.marching import grid, packed, some_rays
from tests.sampling.grids import bits_of, dense, grid_of, updated
from tests.scene_factory import CONFIG as GIVEN

EXTENT = 2.5
CONFIG = settled(GIVEN, Bounds(EXTENT))
THROUGH = Viewpoints.of(None, 0.01, 0.0).through

pytestmark = pytest.mark.usefixtures("on_the_cpu")


class Sampled:
    """The same rays with and without thinning, through a field that hides much."""

    def __init__(
        self, max_samples: int, march_factor: int, thin_below: float = 0.0, extent: float = EXTENT
    ) -> None:
        sizes = {"max_samples": max_samples, "march_factor": march_factor, "thin_below": thin_below}
        config = settled(override(GIVEN, march=sizes), Bounds(extent))
        self.field = EncodedField(encoding_of(config, Bounds(extent)), config.networks)
        parameters = self.field.init(mx.random.key(1))
        self.parameters = parameters | {
            "table": 2e4 * parameters["table"],
            "density": 2.5 * parameters["density"],
        }
        density = self.field.density
        sampler = MarchingSampler(config.march, config.occupancy, Bounds(extent), density)
        origins, directions, jitter = map(mx.array, some_rays(sampler.geometry))
        self.rays, state = Rays(origins, directions), {"bits": packed(grid(sampler.geometry, 0.5))}
        drawn = mx.stack([jitter, 1.0 - jitter], axis=1)
        sampled = sampler.sample(self.parameters, state, self.rays, drawn)
        self.samples, self.samples_per_ray = sampled.samples, float(sampled.mean_samples_per_ray)
        self.marched = march(
            *self.rays[:2], jitter, Occupied(sampler.geometry, state["bits"]), 2**15
        )

    def colors(self, samples) -> np.ndarray:
        density, color, _ = self.field(self.parameters, samples, self.rays)
        return np.array(composite(density, color, samples).color)


def test_rays_see_without_the_samples_behind_their_ends_what_they_see_with_them():
    sampled = Sampled(2**15, march_factor=1)
    kept, marched = np.array(sampled.samples.wanted), np.array(sampled.marched.wanted)
    assert (kept <= marched).all()
    assert 0.2 < (kept < marched).mean() < 0.95, "some rays end, some do not"
    with_all = sampled.colors(sampled.marched)
    np.testing.assert_allclose(sampled.colors(sampled.samples), with_all, rtol=0, atol=1e-6)


def test_more_rays_fit_into_the_slots_without_what_is_hidden():
    visible = Sampled(2**11, march_factor=8)
    marched = np.cumsum(np.array(visible.marched.wanted))
    assert np.array(visible.samples.fits).sum() > 1.1 * (marched <= 2**11).sum()
    assert int(visible.samples.ray_start[-1]) <= 2**11


def test_thinned_rays_see_nearly_the_same_with_fewer_samples():
    thinned, whole = Sampled(2**15, 1, thin_below=0.01), Sampled(2**15, 1)
    kept, visible = np.array(thinned.samples.wanted), np.array(whole.samples.wanted)
    assert (kept <= visible).all()
    assert kept.sum() < 0.8 * visible.sum()
    error = np.abs(thinned.colors(thinned.samples) - whole.colors(whole.samples))
    assert 0 < error.mean() < 0.02


def test_the_samples_of_an_object_are_not_thinned():
    thinned, whole = (Sampled(2**15, 1, below, extent=1.0) for below in (0.2, 0.0))
    assert np.array(whole.samples.wanted).sum() > 0
    np.testing.assert_array_equal(thinned.samples.wanted, whole.samples.wanted)


def test_the_mean_samples_of_a_ray_let_kept_and_marched_samples_fit():
    ample, narrow = Sampled(2**11, march_factor=8), Sampled(2**11, march_factor=1)
    marched, wanted = (np.array(each.wanted) for each in (ample.marched, ample.samples))
    assert 2**11 < marched.sum() < 8 * 2**11
    assert ample.samples_per_ray == pytest.approx(wanted.mean())
    # With a factor of 1 all marched samples have to fit: hidden ones make no difference.
    assert narrow.samples_per_ray == pytest.approx(begun(marched, 2**11).mean())
    between = Sampled(2**11, march_factor=2)
    visible, evaluated = (begun(counts, 2**12, marched) for counts in (wanted, marched))
    assert len(evaluated) < len(marched)
    visible[-1] = evaluated[-1]  # it does not fit, and so counts as visible to its end
    assert between.samples_per_ray == pytest.approx(max(visible.mean(), evaluated.mean() / 2))


def begun(counts: np.ndarray, room: int, marched: np.ndarray | None = None) -> np.ndarray:
    """The `counts` of the rays that begin in the room, if it is filled with those marched."""
    marched = counts if marched is None else marched
    return counts[np.cumsum(marched) - marched < room]


def test_in_the_warm_up_all_that_rays_pass_is_lit_and_later_what_light_gets_to():
    def opaque(_parameters, samples: Samples, _rays: Rays) -> mx.array:
        return mx.full(samples.distance.shape, 1e6)

    sampler = MarchingSampler(CONFIG.march, CONFIG.occupancy, Bounds(EXTENT), opaque)
    rays = Rays(*map(mx.array, some_rays(sampler.geometry)[:2]))
    full = sampler.init([]) | {"bits": packed(grid(sampler.geometry, 1.1))}
    warmup, later = (
        np.array(updated["updates_since_visible"]) == 0
        for updated in (
            sampler.update({}, full, rays, THROUGH, mx.random.key(0), phase) for phase in (0, 1)
        )
    )
    assert later.any()
    assert not (later & ~warmup).any()
    assert later.sum() < 0.2 * warmup.sum(), "only the first cells of rays"


def test_an_update_finds_the_cells_in_front_of_what_is_opaque():
    def wall(position: mx.array) -> mx.array:
        return mx.where(position[:, 0] > 0.45, 1e6, 0.0)

    sampler = MarchingSampler(
        CONFIG.march, CONFIG.occupancy, Bounds(EXTENT), lambda _, some, __: wall(some.position)
    )
    rays, key = Rays(*map(mx.array, some_rays(sampler.geometry)[:2])), mx.random.key(0)
    state = sampler.init([]) | {"bits": packed(grid(sampler.geometry, 0.5))}
    updated = sampler.update({}, state, rays, THROUGH, key, 1)
    jitter = uniform(len(rays.origin), mx.random.split(key)[0])
    occupied = Occupied(sampler.geometry, state["bits"])
    marched = march(*rays[:2], jitter, occupied, UPDATE_SAMPLES * len(rays.origin))
    until = termination_distances(wall(marched.position), marched)
    visible = np.array(visible_cells(rays, jitter, until, sampler.geometry))
    assert 0.1 < (np.array(until) < FAR_DISTANCE).mean() < 0.9
    assert ((np.array(updated["updates_since_visible"]) == 0) == visible).all()


def test_at_first_all_that_the_rays_pass_is_occupied_and_nothing_else():
    sampler = MarchingSampler(CONFIG.march, CONFIG.occupancy, Bounds(EXTENT), lambda *_: None)
    rays = Rays(*map(mx.array, some_rays(sampler.geometry)[:2]))
    batches = [rays.at(slice(first, first + 50)) for first in (0, 50, 100)]
    state = sampler.init(batches)
    everywhere, middle = mx.full(state["bits"].shape, 2**32 - 1, mx.uint32), mx.full((150,), 0.5)
    places = march(*rays[:2], middle, Occupied(sampler.geometry, everywhere), 200_000)
    assert bool(places.fits.all())
    cells = np.array(cell_of(places.position, sampler.geometry))[: int(places.ray_start[-1])]
    passed = np.isin(np.arange(sampler.geometry.cells), cells)
    assert 0.01 < passed.mean() < 0.5
    occupied = bits_of(Occupancy(**state))
    assert (occupied == passed).mean() > 0.999, "rounding moves a place over a face"
    assert ((np.array(state["updates_since_visible"]) == 0) == occupied).all()


@pytest.mark.parametrize("cone", [1 / 64, 1 / 256, 0.0])
def test_an_image_has_finer_steps_than_training_in_the_same_cells(cone):
    march = replace(CONFIG.march, render_step_divisor=3, cone=cone)
    sampler = MarchingSampler(march, CONFIG.occupancy, Bounds(EXTENT), lambda *_: None)
    state = sampler.init([])
    geometry, bits = sampler.occupied(state)
    step = sampler.geometry.step / 3
    assert geometry == replace(sampler.geometry, step=step, cone=min(cone, 1 / 128))
    assert bits is state["bits"]


def beam(origin: mx.array, direction: mx.array) -> Rays:
    """Many rays from the `origin` (1, 3) close around a `direction` (1, 3)."""
    off = 0.02 * np.random.default_rng(6).normal(size=(2000, 3)).astype(np.float32)
    directions = np.array(direction) + off
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return Rays(mx.repeat(origin, len(off), axis=0), mx.array(directions))


def test_samples_begin_at_the_near_plane_and_cells_in_front_of_it_stay_empty():
    def empty(_parameters, samples: Samples, _rays: Rays) -> mx.array:
        return mx.zeros_like(samples.distance)

    config = override(CONFIG, march={"near": 0.7, "thin_below": 0.0})
    sampler = MarchingSampler(config.march, config.occupancy, Bounds(EXTENT), empty)
    origin, direction = mx.array([[0.45, 0.5, 0.6]]), mx.array([[0.6, 0.0, 0.8]])  # from inside
    state = sampler.init([beam(origin, direction), beam(origin + 1.2 * direction, -direction)])

    def state_at(distance: float) -> tuple[bool, bool]:
        """Whether the cell there is occupied, and whether it is empty for good."""
        cell = int(cell_of(origin + distance * direction, sampler.geometry)[0])
        return bits_of(Occupancy(**state))[cell], int(
            state["updates_since_visible"][cell]
        ) == NEVER_OCCUPIED

    # The other camera is 1.2 away, and sees all of that too.
    assert [state_at(at) for at in (0.1, 0.3, 0.6, 0.9, 1.1)] == [(False, True)] * 5
    assert [state_at(at) for at in (-0.15, 1.35)] == [(True, False)] * 2, "behind a camera"
    full = state | {"bits": packed(grid(sampler.geometry, 1.1))}
    sampled = sampler.sample({}, full, Rays(origin, direction), mx.zeros((1, 2))).samples
    assert 0.699 < float(sampled.distance[0]) < 0.7 + 2 * sampler.geometry.step
    assert sampler.occupied(full).geometry.near == 0.7


def test_with_the_smallest_near_plane_no_cell_stays_empty():
    sampler = MarchingSampler(CONFIG.march, CONFIG.occupancy, Bounds(EXTENT), lambda *_: None)
    rays = Rays(mx.array([[0.45, 0.5, 0.6]]), mx.array([[0.6, 0.0, 0.8]]))
    assert sampler.geometry.near == NEAR
    assert int(sampler.init([rays])["updates_since_visible"].max()) < NEVER_OCCUPIED


def test_a_free_cell_is_never_occupied_however_much_light_and_matter_is_in_it():
    cells, _ = grid_of(visibility_patience=3)
    number = np.arange(cells.geometry.cells)
    visible, empty = number % 3 == 0, number % 5 == 0
    occupancy = cells.init(mx.array(visible), mx.array(empty))
    assert (bits_of(occupancy) == visible & ~empty).all()
    for warmup in (True, False):
        occupancy = updated(cells, occupancy, dense, times=9, warmup=warmup)
        assert (bits_of(occupancy) == ~empty).all()
