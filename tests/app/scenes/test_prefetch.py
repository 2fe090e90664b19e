"""Work in threads: results in order, few ahead, errors where they are; images held once."""

import threading
import time

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.app.scenes import load_scene
from nerfmac.app.scenes.scene import prefetch
from nerfmac.backend import choose_device
from tests.app.scenes.scene_files import pixels, save, write_transforms


@pytest.mark.parametrize("count", [0, 1, 2, 37])
def test_results_come_in_order(count):
    def work(index):
        time.sleep(0.001 * (index % 3))
        return index, threading.current_thread()

    got = list(prefetch(work, count))
    assert [index for index, _ in got] == list(range(count))
    assert all(thread is not threading.main_thread() for _, thread in got)


def test_no_more_than_a_few_are_worked_on_ahead(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 3)
    begun = []
    results = prefetch(lambda index: begun.append(index) or index, 50)
    for index in results:
        assert len(begun) <= index + 5
    assert sorted(begun) == list(range(50))


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
