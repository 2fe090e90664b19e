"""Selection of video frames, and detection of the order of capture."""

from itertools import combinations

import numpy as np
import pytest
from PIL import Image

from nerfmac.app.capture import video
from nerfmac.app.capture.pairs import MATCHED, VERIFIED, in_sequence, why_no_walk
from nerfmac.app.capture.video import (
    FrameMeasures,
    measure_frames,
    select_frames,
)

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


def test_a_camera_at_rest_gets_nowhere_even_if_something_small_moves(ground):
    random = np.random.default_rng(3)
    frames = []
    for number in range(6):
        still = frame(ground, 0, 0).copy()
        still[:60, 20 * number : 20 * number + 40] = random.integers(0, 255, (60, 40))
        frames.append(still)
    assert measure_frames(frames).traveled[-1] == 0


def frames(traveled, sharpness=None):
    traveled = np.asarray(traveled, float)
    sharpness = np.ones(len(traveled)) if sharpness is None else np.asarray(sharpness, float)
    return FrameMeasures(sharpness, traveled, np.full(len(traveled), 40.0))


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


NAMES = [f"{number}.jpg" for number in range(24)]
"""Names in image order. The alphabetical order differs, because 10.jpg follows 9.jpg."""


def alike(reach, count=2 * MATCHED):
    """Return matches of each image with the `reach` that follow it."""
    pairs = in_sequence(NAMES, reach)
    return {(min(pair), max(pair)): count for pair in pairs}


def test_an_order_is_a_walk_if_most_neighbors_show_the_same():
    assert not why_no_walk(NAMES, alike(1))
    assert why_no_walk(NAMES[::2] + NAMES[1::2], alike(1))
    assert why_no_walk(NAMES, alike(1, VERIFIED - 1))
    every = {(min(pair), max(pair)): 50 for pair in combinations(NAMES, 2)}
    assert why_no_walk(NAMES, every)
    assert why_no_walk(NAMES[:1], {})
