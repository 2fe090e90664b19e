"""One thread does everything, in order and in slices, and outlives what goes wrong."""

import threading
import time
from concurrent.futures import Future

import numpy as np
import pytest

from nerfmac import Camera, Lens
from nerfmac.app.viewer import path_editor
from nerfmac.app.viewer.path_editor import Canceled, VideoJob
from nerfmac.app.viewer.worker import Worker
from tests.decoding import decoded


@pytest.fixture
def worker():
    made = Worker()
    yield made
    made.end()


class Counting:
    """Counts its slices of work; each returns `pause`."""

    def __init__(self, pause):
        self.pause, self.slices = pause, 0
        self.happened = threading.Event()

    def work(self):
        self.slices += 1
        self.happened.set()
        return self.pause

    def has_worked(self):
        """Wait for a slice of work since the last call."""
        happened = self.happened.wait(5.0)
        self.happened.clear()
        return happened


def test_an_activity_that_was_removed_has_worked_for_the_last_time(worker):
    activity = Counting(0.0)
    worker.add(activity)
    assert activity.has_worked()
    slices = []
    worker.remove(activity, lambda: slices.append(activity.slices))
    worker.wake(activity)  # of one that is gone
    for _ in range(3):
        worker.submit(lambda: None).result(5.0)
    assert [activity.slices] == slices


@pytest.mark.parametrize("pause", [None, 60.0])
def test_a_wake_within_a_slice_is_not_lost(worker, pause):
    class WokenWithin(Counting):
        def work(self):
            if not self.slices:
                worker.wake(self)
            return super().work()

    activity = WokenWithin(pause)
    worker.add(activity)
    end = time.monotonic() + 5.0
    while activity.slices < 2 and time.monotonic() < end:
        time.sleep(0.005)
    assert activity.slices == 2


def test_an_activity_that_fails_is_given_up_and_the_others_go_on(worker, caplog):
    class Failing:
        def work(self):
            raise ZeroDivisionError("on purpose")

    well = Counting(None)
    worker.add(Failing())
    worker.add(well)
    assert well.has_worked()
    worker.wake(well)
    assert well.has_worked()
    assert caplog.text.count("ZeroDivisionError: on purpose") == 1


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
