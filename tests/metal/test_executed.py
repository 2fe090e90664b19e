"""Every Metal kernel, executed on the CPU, gives the expected results.

The cases are most of the self-test cases selected by tests/chosen_cases.py. Each runs once, with
every launch in the executor. The executor also detects undefined behavior (see execute.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import mlx.core as mx
import numpy as np
import pytest

from nerfmac import Bounds, Lens
from nerfmac.app.measure.selftest.specializations import specializations
from nerfmac.backend import choose_device, kernels_disabled
from nerfmac.backend.metal_text import Launch, on_metal
from nerfmac.geometry import Camera, Cameras, Samples, Thinning
from nerfmac.ops.composite import composite
from nerfmac.ops.draw_pixels import draw_pixels
from nerfmac.ops.hash_encode import HashLevels, hash_encode
from nerfmac.ops.march import MarchGeometry, Occupied, write_samples
from nerfmac.ops.networks import _GROUPS, NetworksShape, networks, networks_density
from nerfmac.ops.occupancy_update import pack_bits, splat
from nerfmac.ops.spherical_harmonics import spherical_harmonics
from tests.chosen_cases import aspects, chosen, function, launches_of_cases, reached_by
from tests.metal.execute import Executor
from tests.metal.executed_cases import Runs, run

pytestmark = pytest.mark.slow

# These functions do not write output rows without samples, and no other kernel may read such rows.
LEAVES_ROWS = {"hash_encode_forward", "networks_density", "networks_forward"}

choose_device("cpu")

# Of the 90 cases of `thin`, those that differ in the threshold or the density alone run on the CPU.
CASES = [case for case in chosen() if not re.match(r"thin-\w+-(300|3-0\.[03])-", case)]


@pytest.fixture(scope="module")
def runs(executor):
    runs = Runs(executor, CASES)
    yield runs
    runs.close()


@pytest.mark.parametrize("case", CASES)
def test_case_equals_its_reference(runs, case):
    found = runs[case]
    assert not found.error, found.error
    assert found.launched == {launch.specialization for launch in launches_of_cases()[case]}
    assert found.outcomes
    for outcome in found.outcomes:
        assert outcome.passed, (
            f"{outcome.array} is off by {outcome.error:.2e}; expected {found.tolerance:.1e}"
        )


# These cases add many floats over a simdgroup. Sums of integers do not depend on the order.
ADD_FLOATS = [
    case
    for case in CASES
    if re.match(r"(composite|thin)-(mixed|many)-walls|masked_mean-|expose-", case)
]


@pytest.mark.parametrize("case", ADD_FLOATS)
def test_case_equals_its_reference_in_the_other_order_of_sums(executor, case):
    found = run(case, executor.folder, order="tree")
    assert not found.error, found.error
    assert found.outcomes
    assert all(outcome.passed for outcome in found.outcomes), found.outcomes


def test_each_specialization_is_launched_by_a_case():
    cases = {launch.specialization for some in launches_of_cases().values() for launch in some}
    assert set(specializations()) <= cases


def test_each_value_of_each_template_argument_is_executed_and_all_of_tiny_and_base(runs):
    """The other specializations combine tested values and array forms; all of them are judged."""
    launches = [each for some in launches_of_cases().values() for each in some]
    of_name = {each.specialization: each for each in (*specializations().values(), *launches)}
    launched = set().union(*(runs[case].launched for case in CASES))
    executed = set().union(*(aspects(of_name[name]) for name in launched))
    assert executed == set().union(*map(aspects, of_name.values()))
    assert reached_by("tiny") | reached_by("base") <= launched


def test_threadgroups_that_take_several_tiles_each_give_the_same_gradient(executor, monkeypatch):
    monkeypatch.setitem(_GROUPS, "groups_256", 2)
    found = run("networks-tiny-700", executor.folder)
    assert not found.error, found.error
    assert "networks_gradient__16_32_1_2_1_" in " ".join(found.launched)
    assert all(outcome.passed for outcome in found.outcomes), found.outcomes


def test_outputs_are_written_whole(runs):
    assert set().union(*(runs[case].unwritten for case in CASES)) == LEAVES_ROWS


def test_threadgroups_are_at_most_256_wide_and_grids_fit_32_bits():
    launches = [*specializations().values()]
    launches += [launch for some in launches_of_cases().values() for launch in some]
    for launch in launches:
        assert np.prod(launch.group) <= 256, launch.name
        assert max(launch.grid) < 2**32, launch.name


def test_empty_inputs_launch_nothing_and_give_zeros(executor):
    levels = HashLevels(2, 12, 16, 2.0)
    nothing = {
        "hash_encode": lambda: hash_encode(mx.zeros((0, 3)), mx.ones((levels.entries, 4)), levels),
        "spherical_harmonics": lambda: spherical_harmonics(mx.zeros((0, 3))),
        "splat": lambda: splat(mx.zeros(0, mx.int32), mx.zeros(0), 8),
    }
    for name, call in nothing.items():
        launched = len(executor.launches)
        with on_metal(executor):
            got = call()
        with kernels_disabled():
            want = call()
        assert len(executor.launches) == launched, name
        assert got.shape == want.shape, name
        np.testing.assert_array_equal(np.array(got), np.zeros(got.shape))


# --- Arrays of more than 2^31 bytes ------------------------------------------------------------

ROWS = 2**25 + 7  # the last threadgroup has seven rows
SLOTS = 2**29 + 5


@pytest.fixture
def touched(executor):
    """By function, ranges that the last threadgroup accesses; inputs not given read as zeros."""

    def run(call: Callable[[], object], *given: str) -> dict[str, dict[str, range]]:
        last = Executor(executor.folder, last=1, given=given)
        found = {}

        def execute(launch: Launch, inputs: Sequence[mx.array]) -> list[mx.array]:
            outputs = last(launch, inputs)
            # Of a call that is split into launches, what comes last in memory.
            ranges = found.setdefault(function(launch), {})
            for name, touched in last.touched.items():
                ranges[name] = max(ranges.get(name, touched), touched, key=lambda each: each.stop)
            return outputs

        with on_metal(execute):
            call()
        return found

    return run


def _last(count: int, width: int, rows: int = ROWS) -> range:
    """Elements of the last `count` rows, of `width` elements each."""
    return range((rows - count) * width, rows * width)


def _gradients(call: Callable[..., mx.array | tuple[mx.array, ...]], *primals: mx.array) -> None:
    """Forward and backward, without evaluating anything."""

    def listed(*arrays: mx.array) -> list[mx.array]:
        outputs = call(*arrays)
        together = [outputs] if isinstance(outputs, mx.array) else outputs
        return [each for each in together if isinstance(each, mx.array)]

    outputs = listed(*primals)
    mx.vjp(listed, list(primals), list(map(mx.zeros_like, outputs)))


def test_hash_encoding_of_more_than_2_31_bytes(touched):
    levels = HashLevels(8, 12, 16, 1.4)
    table = mx.ones((levels.entries, 4))
    found = touched(
        lambda: _gradients(lambda p, t: hash_encode(p, t, levels), mx.zeros((ROWS, 3)), table),
        "scales",
        "shapes",
        "used",
        "part",
    )
    last_level = range((ROWS - 7) * 32 + 28, ROWS * 32)
    assert found["hash_encode_forward"]["positions"] == _last(7, 3)
    assert found["hash_encode_forward"]["encoded"] == last_level
    assert found["hash_encode_table_gradient"]["gradient"] == last_level
    assert found["hash_encode_position_gradient"]["gradient"] == _last(7, 32)
    assert found["hash_encode_position_gradient"]["position_gradient"] == _last(7, 3)


def test_spherical_harmonics_of_more_than_2_31_bytes(touched):
    found = touched(lambda: _gradients(spherical_harmonics, mx.zeros((ROWS, 3))))
    assert found["spherical_harmonics_forward"]["basis"] == _last(7, 16)
    assert found["spherical_harmonics_gradient"]["gradient"] == _last(7, 16)
    assert found["spherical_harmonics_gradient"]["direction_gradient"] == _last(7, 3)


def test_networks_of_more_than_2_31_bytes(touched):
    shape = NetworksShape(32, 16, 1, 1)
    features = mx.zeros((ROWS, 32), mx.float16)
    weights = mx.zeros(shape.density.weights), mx.zeros(shape.color.weights)
    ray, used = mx.zeros(ROWS, mx.int32), mx.array([ROWS], mx.int32)

    def call() -> None:
        networks_density(features, *weights, shape)
        _gradients(
            lambda f, d, c: networks(f, mx.ones((1, 16)), ray, used, d, c, shape),
            features,
            *weights,
        )

    found = touched(call, "used", "groups")
    assert found["networks_density"]["features"] == _last(7, 32)
    assert found["networks_density"]["density"] == _last(7, 1)
    assert found["networks_forward"]["features"] == _last(7, 32)
    assert found["networks_forward"]["color"] == _last(7, 3)
    # Each threadgroup takes every 256th tile of 64 rows; the last one has none of the last rows.
    assert found["networks_gradient"]["d_features"] == range(255 * 64 * 32, (ROWS - 7) * 32)


def test_compositing_of_more_than_2_31_bytes(touched):
    numbers = mx.zeros(SLOTS)
    ray_start = mx.array([SLOTS - 45, SLOTS - 40, SLOTS], mx.int32)
    thinning = Thinning(numbers, numbers, mx.zeros(2))
    samples = Samples(mx.zeros((0, 3)), numbers, numbers, numbers, ray_start, numbers, thinning)
    found = touched(
        lambda: _gradients(lambda d, c: composite(d, c, samples), numbers, mx.zeros((SLOTS, 3))),
        "ray_start",
        "slots",
    )
    assert found["composite_forward"]["color"] == _last(45, 3, SLOTS)
    assert found["composite_gradient"]["d_color"] == _last(45, 3, SLOTS)


def test_drawing_from_more_than_2_31_bytes(touched):
    side, fractions = 2**14, np.array([0.965, 0.31, 0.63], np.float32)
    cameras = Cameras.stack([Camera(Lens(side, side, 9.0, 9.0, 4.0, 3.0), np.eye(3, 4))] * 3)
    pixels = mx.zeros((3 * side * side, 4), mx.uint8)
    view, row, column = (fractions * [3, side, side]).astype(int).tolist()
    index = mx.array([(view * side + row) * side + column], mx.int32)
    found = touched(lambda: draw_pixels(pixels, cameras, index), "index", "views", "places")
    first = 4 * index.item()
    assert first > 2**31
    assert found["draw_pixels"]["pixels"] == range(first, first + 4)


def test_marching_into_more_than_2_31_bytes(touched):
    geometry = MarchGeometry(Bounds(1.0), 32, 0.05, 3**0.5 / 256, 0.0)
    ray_start = mx.array([SLOTS - 9, SLOTS - 5, SLOTS], mx.int32)
    origins, directions = mx.array([[0.5, 0.4, -1.0]] * 2), mx.array([[0.0, 0.0, 1.0]] * 2)
    bits = mx.full(geometry.cells // 32, 2**32 - 1, mx.uint32)
    arguments = (origins, directions, mx.zeros(2), Occupied(geometry, bits), SLOTS, ray_start)
    given = ("origins", "directions", "bits", "settings", "ray_start", "slots")
    found = touched(lambda: write_samples(*arguments), *given)
    assert found["march_write"]["positions"] == _last(9, 3, SLOTS)
    assert found["march_write"]["ray_of"] == _last(9, 1, SLOTS)


def test_packing_of_more_than_2_31_bytes(touched):
    cells = 2**29 + 96
    found = touched(lambda: pack_bits(mx.zeros(cells), mx.array([0.5])))
    assert found["occupancy_pack"]["values"] == _last(96, 1, cells)
    assert found["occupancy_pack"]["bits"] == _last(3, 1, cells // 32)
