"""The page's modules project, write numbers, and are joined to one in a working order."""

import math
import re
from pathlib import Path

import numpy as np
import pytest

from nerfmac.app import viewer
from nerfmac.app.export import joined_modules
from nerfmac.app.paths.view import CLOSEST, View
from tests.app.viewer.page.driver import LENS, POSE
from tests.app.viewer.standing import CENTER, EYE, FOV, UP, level

NAVIGATION = "motion/navigation"


@pytest.mark.parametrize("size", [(640, 480), (123, 457)])
def test_the_lens_and_the_distance_are_the_kernels(call, size):
    lens = level().camera(*size).lens
    want = [lens.fl_x / size[0], lens.fl_y / size[1], 0.5, 0.5]
    assert call(NAVIGATION, "viewLens", level().to_json(), *size) == pytest.approx(want)
    distance = call(NAVIGATION, "centerDistance", level().to_json())
    assert distance == pytest.approx(np.linalg.norm(EYE - CENTER))
    inside = View(np.c_[np.eye(3), CENTER], CENTER, UP, FOV)
    assert call(NAVIGATION, "centerDistance", inside.to_json()) == CLOSEST
    assert math.isclose(inside.distance, CLOSEST)


PROJECTION = "image/projection"

ASKEW = [0.36, -0.48, 0.8, 1.5, 0.8, 0.6, 0.0, -0.7, -0.48, 0.64, 0.6, 2.5]


def test_a_point_lies_where_it_was_computed_by_hand(call):
    # 4 ahead, 0.5 to the right, 0.25 up: x = 0.45 + 0.75 / 8, y = 0.55 - 1 / 16
    seen = call(PROJECTION, "projectPoint", POSE, LENS, [1.0, 1.5, 2.25], 0.1)
    assert seen == pytest.approx([0.54375, 0.4875, 4.0])
    for depth in (-1.0, 0.0, 0.09):  # behind, or too near
        assert call(PROJECTION, "projectPoint", POSE, LENS, [5.0 - depth, 1.2, 2.1], 0.1) is None


def test_a_ray_passes_through_the_point_that_is_seen_there(call):
    point = np.array([0.3, -0.4, 0.9])
    x, y, depth = call(PROJECTION, "projectPoint", ASKEW, LENS, point.tolist(), 0.1)
    ray = call(PROJECTION, "rayThrough", ASKEW, LENS, x, y)
    reached = np.array(ray["origin"]) + depth * np.array(ray["direction"])
    assert reached == pytest.approx(point)


PAGE = Path(viewer.__file__).parent / "page"
MODULES = [path for path in sorted(PAGE.rglob("*.js")) if path.parent.name != "alone"]
TOP_LEVEL = re.compile(r"^(?:export )?(?:async )?(?:function|const|let|class) (\w+)", re.MULTILINE)


def test_every_module_is_in_it_once_and_after_what_it_imports():
    script = joined_modules("viewer/page/main.js")
    assert not re.search(r"^import ", script, re.MULTILINE)
    assert re.findall(r"^export .*", script, re.MULTILINE) == ["export default { render };"]
    places = {}
    for path in MODULES:
        declared = TOP_LEVEL.search(path.read_text())[0].removeprefix("export ")
        assert len(re.findall(rf"^{declared}\b", script, re.MULTILINE)) == 1, path.name
        places[path] = script.index(declared)
    for path in MODULES:
        for name in re.findall(r'from "(.+\.js)"', path.read_text()):
            imported = (path.parent / name).resolve()
            assert places[imported] < places[path], f"{path.name} before {imported.name}"
