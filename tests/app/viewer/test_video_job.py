"""A video is whole or not there, and leaves room for everything else."""

import threading
from concurrent.futures import Future
from itertools import pairwise

import numpy as np
import pytest

from nerfmac.app.viewer import path_editor
from nerfmac.app.viewer.path_editor import Canceled, VideoJob
from nerfmac.app.viewer.worker import Worker
from nerfmac.geometry.cameras import Camera
from nerfmac.geometry.lenses import Lens
from tests.decoding import decoded

WIDTH, HEIGHT = 48, 32


def cameras(count):
    lens = Lens.from_fov(0.8, WIDTH, HEIGHT)
    return [Camera.look_at((3.0 + i, 0.2, 1.0), (0, 0, 0), (0, 0, 1), lens) for i in range(count)]


def painted(camera):
    """Gray by the camera's place, with a gradient down the whole image, whatever the strip."""
    rows = np.arange(camera.lens.height) - camera.lens.cy + HEIGHT / 2
    rgb = np.zeros((camera.lens.height, camera.lens.width, 3), np.uint8)
    rgb[..., 0] = 40 * (camera.pose[0, 3] - 3.0)
    rgb[..., 1] = (6 * rows)[:, None]
    return rgb


def at_once(camera):
    future = Future()
    future.set_result(painted(camera))
    return future


@pytest.mark.parametrize("strip", [2**16, 8 * WIDTH])
def test_a_video_has_a_frame_a_camera_without_seams(tmp_path, monkeypatch, strip):
    monkeypatch.setattr(path_editor, "STRIP", strip)
    job = VideoJob(tmp_path / "tour.mp4", at_once, cameras(5), 12.0).start()
    assert job.result.result(60.0) == tmp_path / "tour.mp4"
    assert job.done == job.total == 5
    _, frames = decoded(job.path)
    assert len(frames) == 5
    for frame, camera in zip(frames, cameras(5), strict=True):
        error = frame[..., :2].astype(float) - painted(camera)[..., :2]
        assert np.abs(error).mean() < 6.0  # the codec's


def test_a_video_that_is_canceled_or_fails_leaves_no_file(tmp_path):
    started, go_on = threading.Event(), threading.Event()

    def slowly(camera):
        started.set()
        assert go_on.wait(30.0)
        return at_once(camera)

    def failing(_camera):
        raise ZeroDivisionError("on purpose")

    job = VideoJob(tmp_path / "tour.mp4", slowly, cameras(5), 12.0).start()
    assert started.wait(30.0)
    job.cancel()
    go_on.set()
    failed = VideoJob(tmp_path / "other.mp4", failing, cameras(2), 12.0).start()
    for each, error in ((job, Canceled), (failed, ZeroDivisionError)):
        with pytest.raises(error):
            each.result.result(60.0)
    assert list(tmp_path.iterdir()) == []


def test_the_worker_has_time_for_others_between_two_strips(tmp_path, monkeypatch):
    monkeypatch.setattr(path_editor, "STRIP", 4 * WIDTH)
    worker, order = Worker(), []

    def render(camera):
        def strip():
            order.append("strip")
            return painted(camera)

        return worker.submit(strip)

    class Other:
        def work(self):
            order.append("other")
            return 0.0

    worker.add(Other())
    VideoJob(tmp_path / "tour.mp4", render, cameras(3), 12.0).start().result.result(60.0)
    worker.end()
    strips = [place for place, each in enumerate(order) if each == "strip"]
    assert len(strips) == 3 * HEIGHT // 4
    assert all("other" in order[a:b] for a, b in pairwise(strips))
