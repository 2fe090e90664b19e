"""The inspection reports depth images, and units or axes with which views disagree."""

import re

import numpy as np
import pytest

from nerfmac.app.inspection import inspect_scene, training_findings
from nerfmac.app.inspection.depth import depth_report
from nerfmac.app.scenes import load_scene
from tests.app.scenes import depth_scenes
from tests.app.scenes.depth_scenes import LENS, box_views

pytestmark = pytest.mark.slow

VIEWS = box_views(24, spread=1.0)


def reported(folder, views=VIEWS, writer=depth_scenes.nerfstudio, **more):
    facts, findings = depth_report(load_scene(writer(folder, views, LENS, **more)))
    return "\n".join(facts), "\n".join(findings)


def test_depth_images_are_counted_and_compared(tmp_path):
    fact, findings = reported(tmp_path)
    assert fact.startswith("depth      24 images of 16x12 pixels, ")
    low, high = map(float, re.findall(r"from (\S+) to (\S+) in file units", fact)[0])
    measured = np.stack([view.depth for view in VIEWS])
    assert measured.min() <= low < np.quantile(measured, 0.1)
    assert np.quantile(measured, 0.8) < high <= measured.max()
    percent = int(fact.partition("; ")[2].partition("%")[0])
    assert percent >= 95
    assert findings == ""


@pytest.mark.parametrize("factor", [0.1, 0.01, 1000 / 304.8])
def test_a_wrong_unit_is_corrected(factor, tmp_path, caplog):
    fact, findings = reported(tmp_path, depth_unit_scale_factor=0.001 * factor)
    assert findings == ""
    assert "100% of the depths agree" in fact
    assert f"are read with all depths multiplied by {1 / factor:.4g}: 100% of" in caplog.messages[0]


def test_depth_beyond_the_sensors_range_is_reported(tmp_path):
    views = [view._replace(depth=view.depth * 20) for view in VIEWS]
    fact, findings = reported(tmp_path, views, depth_scenes.polycam)
    assert fact.endswith("0% known")
    assert "their unit may be wrong" in findings


@pytest.mark.parametrize("axes", ["opencv", "rotated"])
def test_swapped_axes_are_reported_when_training_starts_too(axes, tmp_path):
    factors = (1.0, -1.0, -1.0, 1.0)
    if axes == "opencv":
        views = [view._replace(pose=view.pose * factors) for view in VIEWS]
    else:
        views = [view._replace(depth=view.depth[::-1, ::-1]) for view in VIEWS]
    scene = load_scene(depth_scenes.nerfstudio(tmp_path, views, LENS))
    (finding,) = [line for line in training_findings(scene) if "depth" in line]
    assert "or the axes or the unit of the depth images, are wrong" in finding
    assert finding in str(inspect_scene(scene, progress=False))


def test_a_scene_without_depth_images_has_no_line(scene):
    assert depth_report(scene) == ([], [])
