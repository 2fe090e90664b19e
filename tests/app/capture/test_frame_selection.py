"""Which frames of a video are taken."""

import logging

import numpy as np

from nerfmac.app.capture import video
from nerfmac.app.capture.video import FrameMeasures, select_frames


def frames(traveled, sharpness=None):
    traveled = np.asarray(traveled, float)
    sharpness = np.ones(len(traveled)) if sharpness is None else np.asarray(sharpness, float)
    return FrameMeasures(sharpness, traveled, np.full(len(traveled), 40.0))


def test_as_many_are_taken_as_the_motion_asks_for():
    way = 80 * video.SPACING
    assert len(select_frames(frames(np.linspace(0, way, 700)))) == 80
    assert len(select_frames(frames(np.linspace(0, 100, 3000)))) == video.MAX_STRETCHES
    assert len(select_frames(frames(np.linspace(0, 0.1, 700)))) == video.MIN_STRETCHES
    assert len(select_frames(frames(np.linspace(0, way, 700)), count=33)) == 33


def test_a_video_of_few_frames_gives_no_frame_twice():
    assert select_frames(frames(np.linspace(0, 3, 20) ** 2)) == list(range(20))


def test_a_camera_at_rest_gives_few_frames_and_a_moving_one_many():
    traveled = np.concatenate([np.zeros(300), np.linspace(0, 6, 300)])
    chosen = np.array(select_frames(frames(traveled)))
    assert (chosen < 300).sum() <= 2
    assert (chosen >= 300).sum() >= 95


def test_the_sharpest_of_each_stretch_is_taken_near_its_middle():
    sharpness = np.ones(700)
    sharpness[[203, 206]] = 1.2, 1.5  # both near the middle of 200 to 213.9
    sharpness[279] = 9.0  # at the end of its stretch, next to the following one
    chosen = select_frames(frames(np.linspace(0, 50 * video.SPACING, 700), sharpness))
    assert 206 in chosen
    assert 203 not in chosen
    assert 279 not in chosen


def test_what_is_blurred_beside_its_neighbors_is_left_out_with_a_line(caplog):
    sharpness = np.linspace(50, 10, 700)  # what is seen has less and less texture
    sharpness[300:330] = 2.0
    caplog.set_level(logging.INFO, "nerfmac")
    chosen = select_frames(frames(np.linspace(0, 50 * video.SPACING, 700), sharpness))
    assert not {*chosen} & {*range(300, 330)}
    assert 45 <= len(chosen) < 50
    assert f"dropped {50 - len(chosen)} blurred stretches" in caplog.text


def test_frames_that_do_not_move_at_all_are_divided_by_time():
    chosen = select_frames(frames(np.zeros(500)), count=5)
    assert len(chosen) == 5
    assert np.ptp(np.diff(chosen)) < 100
