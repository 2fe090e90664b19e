"""The training error of each view, and the photos that the page shows in the frusta."""

import io
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from nerfmac.app.run import Run, Training
from nerfmac.app.viewer.view_errors import ViewErrors
from nerfmac.training.goal import Goal
from tests.app.viewer.conftest import Page
from tests.scene_factory import COARSE

WRONG = 3


def trained(scene, steps, **changes):
    run = Run.begin(scene, replace(COARSE, **changes), progress=False)
    errors = ViewErrors(len(run.scene.cameras))
    for report in Training(run).fit(Goal(steps=steps, report_interval=0.0)):
        if report is not None:
            errors.add(report.errors)
    return run, errors


def test_the_errors_are_those_of_the_views_and_a_wrong_pose_has_the_largest(scene):
    frames = list(scene.splits["train"])
    frames[WRONG] = replace(frames[WRONG], camera=frames[0].camera)
    wrong = replace(scene, splits={**scene.splits, "train": tuple(frames)})
    run, errors = trained(wrong, 250)
    found = errors.psnr
    assert None not in found
    others = [psnr for index, psnr in enumerate(found) if index not in (0, WRONG)]
    assert found[WRONG] < min(others) - 1.0
    # Backgrounds and pixels are random in training, so this is an estimate.
    whole = [view.psnr for view in run.evaluate("train", progress=False)]
    del found[WRONG], whole[WRONG]
    assert found == pytest.approx(whole, abs=4.0)


def test_the_page_receives_errors_during_training_and_the_photos_it_asks_for(scene):
    page = Page(Run.begin(scene, COARSE, progress=False))
    page.open().settle()
    page.session.train(40, None)
    while page.session.training.is_running:
        page.work()
    status = page.loop._told[page.kernel]
    status._when = -1e9
    status.tell(is_busy=True)
    *_, last = page.take("errors")
    assert last["psnr"] == page.session.training.errors.psnr
    assert None not in last["psnr"]
    page.say("thumbnails")
    page.settle()
    sent = [(each["first"], jpegs) for each, jpegs in page.messages if each["kind"] == "thumbnails"]
    count = len(page.session.run.scene.cameras)
    assert [first for first, _ in sent] == [*range(0, count, 8)]
    photos = [jpeg for _, jpegs in sent for jpeg in jpegs]
    assert len(photos) == count
    apart = []
    for frame in page.session.run.images().splits["train"]:
        photo, _ = frame.decode(4)
        alpha = photo[..., 3:] / 255
        over_white = alpha * photo[..., :3] + (1 - alpha) * 255
        seen = np.asarray(Image.open(io.BytesIO(photos[5])).resize(photo.shape[1::-1]), float)
        apart.append(np.abs(seen - over_white).mean())
    assert np.argmin(apart) == 5
    assert apart[5] < 20.0
