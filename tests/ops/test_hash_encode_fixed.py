"""Gradients of a table in fixed point, and gradients scaled by the squared distance."""

import mlx.core as mx
import numpy as np
import pytest
from numerics import assert_matches

from nerfmac import Bounds, Goal
from nerfmac.app.measure.launches import launches
from nerfmac.backend import choose_device, pretended, using
from nerfmac.backend.apple import LONGEST_LAUNCH, additions_per_second
from nerfmac.config import override
from nerfmac.ops import hash_encode as encoding
from nerfmac.ops.composite import scale_gradients
from nerfmac.ops.hash_encode import HashLevels, hash_encode
from tests.scene_factory import CONFIG, initial, trainer_of

MIXED = HashLevels(levels=5, log2_entries=10, coarsest=3, growth=1.7)  # 2 levels dense, 3 hashed

M1_RATE = 2.6e12  # float32 operations per second

pytestmark = pytest.mark.usefixtures("on_the_cpu")


def drawn(points: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions, and gradients of MIXED's features, two a level."""
    random = np.random.default_rng(points)
    positions = random.uniform(size=(points, 3)).astype(np.float32)
    return positions, random.normal(size=(points, 10)).astype(np.float32)


def gradient_of(
    variant: str, positions: np.ndarray, cotangent: np.ndarray, used: int | None = None
) -> np.ndarray:
    """The gradient of MIXED's table of two features."""
    table, count = mx.zeros((MIXED.entries, 2)), mx.array([used or len(positions)], mx.int32)

    def encode(table: mx.array) -> mx.array:
        return hash_encode(mx.array(positions), table, MIXED, count)

    with using(hash_encode_gradient=variant):
        return np.array(mx.vjp(encode, [table], [mx.array(cotangent)])[1][0])


def test_sums_do_not_depend_on_the_order():
    random = np.random.default_rng(3)
    positions = random.uniform(size=(900, 3)).astype(np.float32)
    cotangent = random.normal(size=(900, 10)) * np.exp(2 * random.normal(size=(900, 1)))
    cotangent, order = cotangent.astype(np.float32), random.permutation(900)
    for variant, is_same in (("fixed", True), ("float", False)):
        one = gradient_of(variant, positions, cotangent)
        other = gradient_of(variant, positions[order], cotangent[order])
        assert np.array_equal(one, other) == is_same, variant
        assert_matches(one, other, rel=1e-5, name=variant)


@pytest.mark.parametrize("size", [1e-25, 1e-3, 1.0, 3e4, 1e30])
def test_as_many_as_meet_in_one_entry_fit_at_any_size(size):
    positions = np.full((3000, 3), 0.37, np.float32)  # all in one cell of each level
    cotangent = np.full((3000, 10), -size, np.float32)
    cotangent[:, 4:6] *= 1e-5  # each level has a separate unit
    got = gradient_of("fixed", positions, cotangent)
    for first, last in ((0, 2), (2, 3)):  # the others are as the first
        begin, end = MIXED.shapes[first][1], MIXED.shapes[last][1]
        want = gradient_of("float", positions, cotangent)[begin:end]
        assert_matches(got[begin:end], want, rel=1e-4, name=f"level {first}")


@pytest.mark.parametrize("rubbish", [np.nan, np.inf, 1e38])
def test_rows_that_do_not_count_have_no_part_in_the_unit(rubbish):
    positions, cotangent = drawn(70)
    want = gradient_of("fixed", positions[:50], cotangent[:50])
    cotangent[50:] = rubbish
    assert np.array_equal(gradient_of("fixed", positions, cotangent, used=50), want)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_makes_its_whole_level_nan(bad):
    positions, cotangent = drawn(70)
    cotangent[13, 3] = bad  # of level 1
    got = gradient_of("fixed", positions, cotangent)
    (_, begin, _), (_, end, _) = MIXED.shapes[1:3]
    assert np.isnan(got[begin:end]).all()
    assert np.isfinite(got[:begin]).all()
    assert np.isfinite(got[end:]).all()


@pytest.mark.cuda
def test_a_gpu_repeats_bit_for_bit():
    """Test 2^17 samples; many of them share entries of the coarse levels."""
    choose_device("cuda")
    try:
        positions, cotangent = drawn(2**17)
        first, *others = (gradient_of("fixed", positions, cotangent) for _ in range(8))
        assert first.any()
        assert all(np.array_equal(first, other) for other in others)
    finally:
        choose_device("cpu")


@pytest.mark.parametrize("variant", ["float", "summed", "fixed"])
@pytest.mark.parametrize("most", [1, 2, 3, 4])
def test_levels_added_by_several_launches_are_as_by_one(variant, most, monkeypatch):
    positions, cotangent = drawn(700)
    whole = gradient_of(variant, positions, cotangent, used=650)
    additions = 700 * 8 * 2  # of one level
    monkeypatch.setattr(encoding, "additions_per_launch", lambda *, floats: most * additions + 1)
    found = launches(lambda: gradient_of(variant, positions, cotangent, used=650))
    adding = [each for each in found if each.adds]
    assert [each.call["grid"][1] for each in adding] == [len(each) for each in MIXED.parts(most)]
    assert max(each.call["grid"][1] for each in adding) <= most
    assert np.array_equal(gradient_of(variant, positions, cotangent, used=650), whole)


@pytest.mark.parametrize(
    ("generation", "variant", "launched"),
    [(13, "fixed", 1), (13, "float", 2), (14, "summed", 2), (15, "float", 1), (None, "float", 2)],
)
def test_a_launch_on_an_apple_gpu_takes_at_most_a_tenth_of_a_second(generation, variant, launched):
    """A step of preset base adds 2^25 times."""
    levels = HashLevels(levels=16, log2_entries=8, coarsest=4, growth=1.5)
    table = mx.zeros((levels.entries, 2))

    def gradient() -> None:
        def encode(table: mx.array) -> mx.array:
            return hash_encode(mx.zeros((2**17, 3)), table, levels)

        with using(hash_encode_gradient=variant):
            mx.vjp(encode, [table], [mx.zeros((2**17, 32), mx.float16)])

    with pretended("metal", generation):
        found = launches(gradient, runs=False)
    adding = [each for each in found if each.adds]
    assert len(adding) == launched
    floats, rate = variant != "fixed", M1_RATE
    for each in adding:
        additions = each.work.atomics
        seconds = additions / additions_per_second(generation or 13, rate, floats=floats)
        assert 0 < seconds <= LONGEST_LAUNCH


DISTANCE = np.array([0.0, 0.3, 1.1, 1.5, 1.6, 40.0], np.float32)
FACTOR = np.array([0.0, 0.04, 0.5378, 1.0, 1.0, 1.0])  # at 1.5 in full


@pytest.mark.parametrize("shape", [(6,), (6, 3)])
def test_the_gradient_shrinks_with_the_square_of_the_distance_and_the_value_stays(shape):
    random = np.random.default_rng(3)
    values, slopes = random.normal(size=(2, *shape)).astype(np.float32)
    values *= 1e4  # a sum with anything would round

    def run(values: mx.array) -> mx.array:
        return scale_gradients(values, mx.array(DISTANCE), 1.5)

    got, back = mx.vjp(run, [mx.array(values)], [mx.array(slopes)])
    assert np.array_equal(np.array(got[0]), values)
    want = slopes * FACTOR.reshape(-1, *[1] * (len(shape) - 1))
    assert_matches(back[0], want, rel=2e-4, name="scaled gradient")


def first_step(scene, extent, gradient_scaling):
    """Return the loss in the first step, and the table after it."""
    config = override(CONFIG, train={"gradient_scaling": gradient_scaling}, optimizer={"rate": 1.0})
    trainer = trainer_of(config, Bounds(extent), scene.views("train"))
    *_, last = trainer.train(initial(trainer), Goal(steps=1))
    return last.loss, np.array(last.state.parameters["table"])


def test_training_scales_gradients_where_cameras_are_inside_of_the_cube(scene):
    loss, plain = first_step(scene, 4.0, 0.0)
    same_loss, table = first_step(scene, 4.0, 3.0)
    assert same_loss == loss
    assert not np.array_equal(table, plain)
    _, near = first_step(scene, 4.0, 1e-6)
    assert np.array_equal(near, plain), "all samples are further away than that"


def test_an_object_in_the_unit_cube_is_learned_as_it_is(scene):
    assert np.array_equal(first_step(scene, 1.0, 3.0)[1], first_step(scene, 1.0, 0.0)[1])
