"""What is counted from shapes is what the kernels are launched with."""

import mlx.core as mx
import pytest

from nerfmac.backend import choose_device, using
from nerfmac.backend.metal_text import recorded
from nerfmac.config import override
from nerfmac.geometry.cameras import Camera, Cameras
from nerfmac.geometry.lenses import Lens
from nerfmac.measure.bench.step_work import step_work, update_work
from nerfmac.measure.bench.work import Sizes, Work
from nerfmac.measure.profile.steps import NEVER_EVALUATED, recorded_launches, sizes_of
from nerfmac.presets import PRESETS
from nerfmac.scenes import Views, load_scene
from nerfmac.training.trainer import Trainer
from tests.scene_factory import CONFIG, write_scene

SETTINGS = 512
"""Bytes: more than all a kernel's settings, less than any mistake at these sizes."""


def test_a_time_is_that_of_the_scarcer_resource():
    some = Work(cached=100, uncached=400, operations=1000)
    assert some.seconds(100.0, 1e9) == 4.0
    assert some.seconds(100.0, 1e9, cached=True) == 1.0
    assert some.seconds(1e9, 100.0) == some.seconds(1e9, 100.0, cached=True) == 10.0


@pytest.fixture(scope="module")
def trainer(tmp_path_factory):
    choose_device("cpu")
    scene = load_scene(write_scene(tmp_path_factory.mktemp("scene")))
    config = override(CONFIG, grid={"log2_entries": 12}, train={"rays": 128})
    return Trainer(config, scene.extent, scene.views("train"))


@pytest.mark.parametrize("gradient", ["float", "fixed"])
def test_the_sizes_are_those_of_the_launches_on_this_device(trainer, gradient):
    state = trainer.init()
    with using(hash_encode_gradient=gradient):
        sizes = sizes_of(trainer, state)
        _, update, step, average = recorded_launches(trainer, state)
    assert not average, "plain MLX"
    for counted, launched in ((step_work(sizes), step), (update_work(sizes), update)):
        moved = dict.fromkeys(counted, 0)
        for launch in launched:
            name = launch.name
            if name not in NEVER_EVALUATED:
                moved[name] += launch.traffic
            if name == "draw_pixels":  # of the pictures a pixel a ray; cameras are not counted
                moved[name] += 4 * launch.call["output_shapes"][0][0]
                moved[name] -= sum(each.nbytes for each in launch.call["inputs"][2:])
        assert {name: each.cached for name, each in counted.items()} == {
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
    return Views(mx.zeros((16, 4), mx.uint8), Cameras.stack([camera]), ("one",))
