"""What is counted from shapes is what a hand counts, and what the kernels are launched with."""

from dataclasses import replace

import mlx.core as mx
import pytest

from nerfmac.backend import choose_device
from nerfmac.backend.metal_text import recorded
from nerfmac.bench import work
from nerfmac.bench.steps import NEVER_EVALUATED, recorded_launches, sizes_of
from nerfmac.bench.work import Sizes, Work, step_work, update_work
from nerfmac.config import override
from nerfmac.geometry.cameras import Camera, Cameras
from nerfmac.geometry.lenses import Lens
from nerfmac.ops.networks import NetworksShape
from nerfmac.presets import PRESETS
from nerfmac.scenes import Views, load_scene
from nerfmac.training.trainer import Trainer
from tests.scene_factory import CONFIG, write_scene

TINY = Sizes(
    rays=2,
    slots=5,
    cells=64,
    visited=3,
    interval=4,
    levels=2,
    features=4,
    entries=10,
    networks=NetworksShape(16, 16, 1, 1),
    half=2,
    groups=3,
)
WEIGHTS = (16 * 16 + 16 * 16) + (32 * 16 + 16 * 16)
"""Of `TINY`'s networks: 16-16-16 and 32-16-16."""
SETTINGS = 512
"""Bytes: more than all a kernel's settings, less than any mistake at these sizes."""


def test_the_hash_encoding_by_hand():
    forward = work.hash_encode_forward(TINY, 5)
    # Positions read and features written, then 10 of 80 rows, or all of them, of 4 halves.
    assert forward.once == 5 * 12 + 5 * 2 * 8 + 10 * 8
    assert forward.anew == 5 * 12 + 5 * 2 * 8 + 5 * 2 * 8 * 8
    # Three axes of five operations; eight corners of two, and two for each of four features.
    assert forward.operations == 5 * 2 * (15 + 8 * 10)
    # A table that is larger than what is gathered from it is not read whole.
    assert work.hash_encode_forward(replace(TINY, entries=10**6), 5).once == forward.anew


def test_the_hash_tables_gradient_by_hand():
    gradient = work.hash_encode_table_gradient(TINY, 5)
    # Float32 rows of 16 bytes, read and written; the table is cleared once.
    assert gradient.once == 5 * 12 + 5 * 2 * 8 + 2 * 10 * 16
    assert gradient.anew == 5 * 12 + 5 * 2 * 8 + 10 * 16 + 2 * 80 * 16
    assert gradient.operations == 5 * 2 * (15 + 8 * 10)


def test_the_networks_by_hand():
    assert TINY.weights == WEIGHTS
    # A sample's 16 halves and its ray, the bases, the weights twice in half precision.
    read = 5 * (32 + 4) + 2 * 64 + 2 * WEIGHTS * 2
    assert work.networks_forward(TINY) == Work(read + 80, read + 80, 2 * 5 * WEIGHTS)
    moved = read + 5 * 16 + 5 * 32 + 3 * WEIGHTS * 4
    assert work.networks_gradient(TINY) == Work(moved, moved, 6 * 5 * WEIGHTS)
    assert work.networks_density(TINY, 3).operations == 2 * 3 * 512
    assert work.networks_store(TINY).once == WEIGHTS * (4 + 2 + 2)


def test_drawing_compositing_marching_and_adam_by_hand():
    # Density, colour, distance, width a sample; starts; colour, opacity, depth a ray.
    assert work.composite_forward(TINY).once == 4 * (6 * 5 + 3 + 5 * 2)
    assert work.composite_forward(TINY).operations == 16 * 5
    assert work.composite_gradient(TINY).once == 4 * (6 * 5 + 3 + 2 * 5 * 2 + 4 * 5)
    # Three shares, a pixel's bytes and ten results; a camera's sixteen numbers.
    assert work.draw_pixels(TINY) == Work(2 * 56, 2 * (56 + 64), 2 * 40)
    # A ray's seven numbers and its count; two words of the grid, or one a sample.
    assert work.march_count(TINY).once == 4 * (2 * 8 + 2)
    assert work.march_count(TINY).anew == 4 * (2 * 8 + 5)
    assert work.march_write(TINY).once == 4 * (2 * 7 + 2 + 3 + 2 + 5 * 6)
    assert work.adam(TINY) == Work(*[28 * (40 + WEIGHTS)] * 2, 15 * (40 + WEIGHTS))
    assert work.average(TINY) == Work(*[12 * (40 + WEIGHTS)] * 2, 3 * (40 + WEIGHTS))
    assert work.occupancy_splat(TINY).once == 4 * (2 * 3 + 2 * 64)
    assert work.occupancy_splat(TINY).anew == 4 * (2 * 3 + 64 + 2 * 3)
    # Ten draws among two words: one halving, its two ends, the word.
    choose = work.occupancy_choose(replace(TINY, visited=20))
    assert choose == Work(2 * 4 * 10 + 4 * 4, 2 * 4 * 10 + 4 * 3 * 10, 10 * 35)
    assert work.occupancy_pack(TINY).once == 4 * 64 + 8
    assert work.between_work(TINY).once == 40 * 6 + 4 * (3 * WEIGHTS + WEIGHTS)
    assert work.between_work(replace(TINY, half=4)).once == 4 * 4 * WEIGHTS


def test_a_time_is_that_of_the_scarcer_resource():
    some = Work(once=100, anew=400, operations=1000)
    assert some.seconds(100.0, 1e9) == 4.0
    assert some.seconds(100.0, 1e9, cached=True) == 1.0
    assert some.seconds(1e9, 100.0) == some.seconds(1e9, 100.0, cached=True) == 10.0


@pytest.fixture(scope="module")
def trainer(tmp_path_factory):
    choose_device("cpu")
    scene = load_scene(write_scene(tmp_path_factory.mktemp("scene")))
    config = override(CONFIG, grid={"log2_entries": 12}, train={"rays": 128})
    return Trainer(config, scene.extent, scene.views("train"))


def test_the_sizes_are_those_of_the_launches_on_this_device(trainer):
    state = trainer.init()
    sizes = sizes_of(trainer, state)
    _, update, step, average = recorded_launches(trainer, state)
    assert not average, "plain MLX"
    for counted, launched in ((step_work(sizes), step), (update_work(sizes), update)):
        moved = dict.fromkeys(counted, 0)
        for name, launch in launched:
            if name not in NEVER_EVALUATED:
                moved[name] += launch.traffic
            if name == "draw_pixels":  # of the images a pixel a ray; cameras are not counted
                moved[name] += 4 * sizes.rays
                moved[name] -= sum(each.nbytes for each in launch.call["inputs"][2:])
        assert {name: each.once for name, each in counted.items()} == {
            name: pytest.approx(traffic, abs=SETTINGS) for name, traffic in moved.items()
        }


@pytest.mark.parametrize("name", ["small", "base"])
def test_the_sizes_are_those_of_the_launches_on_a_gpu(name):
    config = PRESETS[name]
    sizes = Sizes.of(config, 1.0, config.train.rays, on_gpu=True)
    trainer = Trainer(config, 1.0, views())
    with recorded() as seen:  # what a GPU would be given: nothing is computed
        *_, (_, measured), _ = trainer.trial(trainer.init())
    del measured
    gradient = next(each for name, each in seen.items() if "networks_gradient" in name)
    features, weights = gradient.output_shapes
    assert weights == (sizes.groups, sizes.weights)
    assert features == (sizes.slots, sizes.networks.features)
    assert [each.size for each in gradient.output_dtypes] == [sizes.half, 4]


def views():
    lens = Lens.from_fov(0.7, 4, 4)
    camera = Camera.look_at((2, 1, 3), (0, 0, 0), (0, 0, 1), lens)
    return Views(mx.zeros((1, 4, 4, 4), mx.uint8), Cameras.stack([camera]), ("one",))
