"""In the mode depth, a comparison shows the depth that a sensor has measured."""

import io

import mlx.core as mx
import numpy as np
import pytest
from PIL import Image

from nerfmac import Goal, Run, choose_device, load_scene, resume
from nerfmac.app.viewer.images import PhotoComparison
from tests.app.scenes import depth_scenes
from tests.app.scenes.depth_scenes import DEPTH_SIZE, LENS, box_views, map_of
from tests.app.viewer.conftest import Page
from tests.scene_factory import COARSE


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    device = mx.default_device()
    choose_device("cpu")
    folder = depth_scenes.polycam(tmp_path_factory.mktemp("box"), box_views(), LENS)
    run = Run.begin(load_scene(folder, split="none"), COARSE)
    resume(run, Goal(steps=2), progress=False)
    yield run
    mx.set_default_device(device)


def photos(page):
    return [
        (message, np.asarray(Image.open(io.BytesIO(buffers[0]))))
        for message, buffers in page.messages
        if message["kind"] == "photo"
    ]


def test_the_depth_replaces_the_photo_while_the_mode_is_depth(run):
    page = Page(run).open(96, 72)
    page.settle()
    page.say("set", values={"mode": "depth"}, t=1)
    page.say("stand", index=3, t=2).settle()
    ((message, shown),) = photos(page)
    assert (message["index"], message["width"], message["height"]) == (3, *DEPTH_SIZE)
    assert shown.shape == (DEPTH_SIZE[1], DEPTH_SIZE[0], 3)
    assert page.images()[-1][0]["compared"] == 3
    page.say("set", values={"mode": "color"}, t=3).settle()
    (_, (message, _)) = photos(page)
    assert (message["index"], message["width"]) == (3, LENS.width)
    page.say("set", values={"mode": "opacity"}, t=4).settle()
    assert len(photos(page)) == 2
    page.say("set", values={"mode": "depth"}, t=5).settle()
    (content, _) = photos(page)[-1]
    assert (content["width"], content["content"]) == (DEPTH_SIZE[0], "measured depth")


def test_measured_depth_has_the_colors_of_rendered_depth(run):
    session = Page(run).session
    session.set({"mode": "depth", "background": "#ff00ff"})
    distance, confidence = map_of(run.images().views("train").depth, 2)
    options, focus = session.display.options(), float(np.median(distance))
    comparison = PhotoComparison.of(run, 2, (1.0, 1.0, 1.0))
    measured = comparison.with_measured_depth(run, options, focus).photo
    frame_depth, frame_confidence = run.images().splits["train"][2].decode_depth()
    assert (measured[frame_confidence == 0] == (255, 0, 255)).all()
    # Both ends of the color map are reached for a focus that is much nearer or farther.
    known = confidence > 0
    near, far = (
        comparison.with_measured_depth(run, options, each).photo[known] for each in (1e-3, 1e3)
    )
    assert (near == near[0]).all()
    assert (far == far[0]).all()
    assert near[0].tolist() != far[0].tolist()
    assert len(np.unique(measured[known], axis=0)) > 20
    assert frame_depth.shape == distance.shape
