"""Scenes: splits on the device, the time of decoding, and errors."""

import mlx.core as mx
import numpy as np
import pytest

from nerfmac import Camera, Frame, InputError, Lens, Scene, choose_device, load_scene
from nerfmac.app.scenes.scene import prefetch
from tests.app.scenes.scene_files import (
    HEIGHT,
    WIDTH,
    pixels,
    save,
    write_blender,
    write_transforms,
)

LENS = Lens(WIDTH, HEIGHT, 30.0, 29.0, 11.0, 8.5)


def frame(index: int, image: np.ndarray | None = None) -> Frame:
    pose = np.eye(3, 4)
    pose[:, 3] = index, 0, 1
    image = pixels(index) if image is None else image
    return Frame(Camera(LENS, pose), image, f"frame {index}")


def scene(**values) -> Scene:
    splits = {"train": (frame(0), frame(1)), "val": ()}
    return Scene(**({"name": "made", "extent": 1.0, "splits": splits} | values))


def test_a_split_is_its_images_in_order_with_their_cameras(tmp_path):
    views = load_scene(write_blender(tmp_path, train=5, test=2)).views("train")
    assert views.names == tuple(f"train/r_{index}" for index in range(5))
    assert (views.pixels.dtype, len(views.cameras)) == (mx.uint8, 5)
    want = np.stack([pixels(index, 4) for index in range(5)])
    np.testing.assert_array_equal(np.array([views.image(i) for i in range(5)]), want)


@pytest.mark.parametrize("split", ["val", "tset"])
def test_an_absent_or_empty_split_is_refused_with_those_there_are(split):
    with pytest.raises(InputError, match=rf"'made' has no '{split}' views; .* splits: train$"):
        scene().views(split)


def test_images_of_several_sizes_are_decoded_each_in_its_own(tmp_path):
    path = write_transforms(tmp_path, 4)
    save(tmp_path / "images/002.png", pixels(2, width=WIDTH // 2, height=HEIGHT // 2))
    loaded = load_scene(path, split="none")
    assert repr(loaded).endswith("train: 4, 24x16 and 1 more, extent 2)")
    views = loaded.views("train")
    assert views.cameras.sizes == ((24, 16), (24, 16), (12, 8), (24, 16))
    small = pixels(2, width=WIDTH // 2, height=HEIGHT // 2)
    np.testing.assert_array_equal(np.array(views.image(2)), small)
    np.testing.assert_array_equal(np.array(views.image(-1)), pixels(3))
    assert views.cameras[2].lens.fl_x == 15.0
    assert views.blended(2).shape == (8, 12, 3)


def test_an_error_comes_in_its_place_and_ends_the_work(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    begun = []

    def work(index):
        begun.append(index)
        if index == 4:
            raise ValueError("the fifth")
        return index

    results = prefetch(work, 100)
    assert [next(results) for _ in range(4)] == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="the fifth"):
        next(results)
    assert max(begun) < 10


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
def device(request):
    before = mx.default_device()
    choose_device(request.param)
    yield request.param
    mx.set_default_device(before)


def test_images_of_several_sizes_are_held_once(tmp_path, device):
    frames = {index: {"w": 240 * (1 + index % 2), "h": 160 * (1 + index % 2)} for index in range(8)}
    path = write_transforms(tmp_path, 8, frame=frames)
    for index, frame in frames.items():
        save(tmp_path / f"images/00{index}.png", pixels(index, 3, frame["w"], frame["h"]))
    scene = load_scene(path, split="none")
    mx.clear_cache()
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    views = scene.views("train")
    mx.eval(views.pixels)
    size, largest = views.pixels.nbytes, 480 * 320 * 3
    if device == "cpu":  # GPUs hand out memory in large pages
        assert mx.get_active_memory() - before <= size + 2**16
        assert mx.get_peak_memory() - before <= size + 2 * largest + 2**16
    for index, frame in frames.items():
        wanted = pixels(index, 3, frame["w"], frame["h"])
        np.testing.assert_array_equal(np.array(views.image(index)), wanted)
