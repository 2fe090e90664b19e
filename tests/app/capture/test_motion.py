"""Sharpness and motion of frames, tested on a texture with known motion."""

import numpy as np
import pytest
from PIL import Image, ImageFilter

from nerfmac.app.capture.video import laplacian_variance, measure_frames

HEIGHT, WIDTH = 180, 240


@pytest.fixture(scope="module")
def ground():
    """Return a texture much larger than a frame, with detail at several scales."""
    random = np.random.default_rng(7)
    layers = [
        Image.fromarray(random.integers(0, 255, size, np.uint8)).resize((960, 720))
        for size in ((30, 40), (120, 160), (360, 480))
    ]
    return np.mean([np.asarray(layer) for layer in layers], axis=0).astype(np.uint8)


def frame(ground, right, down):
    return ground[100 + down : 100 + down + HEIGHT, 150 + right : 150 + right + WIDTH]


@pytest.mark.parametrize("step", [(3, 0), (-2, 5), (14, -9)])
def test_the_way_grows_by_the_shift_of_each_frame_in_longer_sides(ground, step):
    frames = [frame(ground, step[0] * number, step[1] * number) for number in range(9)]
    traveled = measure_frames(frames).traveled
    assert traveled[0] == 0
    # Shifts are found in whole pixels of frames of half the size.
    assert traveled[-1] * WIDTH == pytest.approx(8 * np.hypot(*step), abs=3.0, rel=0.05)


def test_a_slow_motion_is_not_lost_in_rounding(ground):
    frames = [frame(ground, number // 3, 0) for number in range(60)]
    assert measure_frames(frames).traveled[-1] * WIDTH == pytest.approx(59 // 3, abs=3.0)


def test_a_camera_at_rest_gets_nowhere_even_if_something_small_moves(ground):
    random = np.random.default_rng(3)
    frames = []
    for number in range(6):
        still = frame(ground, 0, 0).copy()
        still[:60, 20 * number : 20 * number + 40] = random.integers(0, 255, (60, 40))
        frames.append(still)
    assert measure_frames(frames).traveled[-1] == 0


def test_blur_is_less_sharp_whichever_way_it_goes(ground):
    sharp = Image.fromarray(frame(ground, 0, 0))
    blurred = np.asarray(sharp.filter(ImageFilter.GaussianBlur(1.5)), np.float32)
    assert laplacian_variance(blurred) < 0.5 * laplacian_variance(np.asarray(sharp, np.float32))


def test_black_frames_have_no_contrast_and_no_motion():
    frames = measure_frames([np.full((HEIGHT, WIDTH), 4, np.uint8)] * 3)
    assert frames.contrast.max() == 0
    assert frames.traveled.tolist() == [0, 0, 0]


def test_there_may_be_no_frames():
    assert len(measure_frames([]).sharpness) == 0
