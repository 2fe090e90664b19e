"""The training error of each view, and the photos that the page shows in the frusta."""

from dataclasses import replace

import pytest

from nerfmac.app.run import Run, Training
from nerfmac.app.viewer.view_errors import ViewErrors
from nerfmac.training.goal import Goal
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
