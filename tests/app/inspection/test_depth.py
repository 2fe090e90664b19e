"""The inspection reports depth images, and units or axes with which views disagree."""

import re

import numpy as np
import pytest

from nerfmac.app.inspection.images import depth_report
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
