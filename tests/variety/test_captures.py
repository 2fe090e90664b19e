"""Captures of many kinds of subjects are accepted with right cameras, and captures without parallax
are refused. The images have features with known truth, and COLMAP estimates the cameras."""

from contextlib import nullcontext, suppress
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from nerfmac.app.capture import structure
from nerfmac.app.capture.findings import RefusedError
from nerfmac.app.capture.structure import Solver, run_stage
from nerfmac.common import read_json
from nerfmac.geometry.lenses import Lens
from tests.conftest import daily_but
from tests.variety import captures, paths
from tests.variety.worlds import World, box, ground, rectangle, room, table

pycolmap = pytest.importorskip("pycolmap", reason="needs pycolmap, of the extra capture")

pytestmark = pytest.mark.slow

USUAL = Lens(800, 600, 700.0, 700.0, 400.0, 300.0)
SQUEEZED = Lens(600, 600, 525.0, 700.0, 300.0, 300.0)
"""Lens of photos of 800x600 that have been resized to 600x600."""
WIDE = Lens(800, 450, 700.0, 525.0, 400.0, 225.0)
"""Lens of photos of 800x600 that have been resized to 800x450."""
ROOM, HALL = World(room(5, 6, 2.6), 0.01), World(room(12, 14, 4), 0.02)
OBJECT, ALONE = World(table(0.3, 1.5), 0.004), World(table(0.3, 1.5)[1:], 0.004)
CORNER = World([*table(0.5, 3), rectangle((0, 3, 1), (5, 0, 0), (0, 0, 1.5), 9)], 0.01)
CORRIDOR = World(
    [
        *box((-1, -10, 0), (1, 10, 2.5), 0),
        *box((-1, -3, 0), (-0.6, -2, 1), 3, "XyYZ"),
        *box((0.5, 2, 0), (1, 3, 1.8), 5, "xyYZ"),
    ],
    0.01,
)
WALL = World(
    [
        rectangle((0, 0, 1.5), (8, 0, 0), (0, 0, 1.5), 0),
        rectangle((0, -3, 0), (8, 0, 0), (0, 3, 0), 1),
    ],
    0.01,
)


def flight(relief=0.0, tilt=0.0, lens=USUAL):
    """Return flat ground with boxes, and the cameras of a survey flight 5 m above it."""
    return World(ground(12, relief), 0.02), paths.grid(3, 7, 1.3, 5, lens, tilt=tilt, wobble=0.02)


GOOD = {
    "flat ground": (*flight(), True),
    "flat ground without EXIF": (*flight(), False),
    "ground with relief": (*flight(relief=0.5), True),
    "tilted flight without EXIF": (*flight(tilt=30), False),
    "wall": (WALL, paths.walk(24, 8, 2.5, 1.5, USUAL), True),
    "corridor": (CORRIDOR, paths.corridor(14, 6, 1.5, USUAL), True),
    "room outward, 0.4 m": (ROOM, paths.turn(30, 0.4, 1.5, USUAL), True),
    "hall outward, 1 m": (HALL, paths.turn(30, 1.0, 1.7, USUAL), True),
    "object": (OBJECT, paths.ring(30, 1, 0.5, USUAL), False),
    "turntable": (ALONE, paths.ring(30, 1, 0.4, USUAL), True),
    "short walk, 6 %": (CORNER, paths.walk(8, 0.18, 3, 0.9, USUAL), True),
}
"""World, cameras, and whether EXIF specifies the focal length."""
TURNED = {
    "room": (ROOM, paths.turn(30, 0.0, 1.5, USUAL), True),
    "room without EXIF": (ROOM, paths.turn(30, 0.05, 1.5, USUAL), False),
    "hall, 0.1 m": (HALL, paths.turn(12, 0.1, 1.7, USUAL, arc=144), True),
    "quarter": (ROOM, paths.turn(14, 0.0, 1.5, USUAL, arc=90), True),
}
SQUEEZES = {
    "object": (OBJECT, paths.ring(30, 1, 0.5, SQUEEZED), False),
    "object with EXIF": (OBJECT, paths.ring(30, 1, 0.5, SQUEEZED), True),
    "object, flat": (OBJECT, paths.ring(30, 1, 0.5, WIDE), False),
}


@pytest.fixture
def solved(tmp_path, monkeypatch):
    """Return a function that estimates the cameras of a case."""

    def solve(world, cameras, is_known):
        (tmp_path / "images").mkdir(exist_ok=True)
        focal = cameras[0].lens.fl_x if is_known else 0.0
        images = captures.write_database(tmp_path, world, cameras, focal=focal)

        def run(stage, folder, bar):
            if stage == "matches":
                plan = read_json(folder / "plan.json")
                captures.match_pairs(pycolmap, folder, plan, world, cameras)
            elif stage != "features":
                run_stage(stage, folder, bar)

        monkeypatch.setattr(structure, "run_stage", run)
        bar = SimpleNamespace(update=lambda count: None)
        solver = Solver(tmp_path, tmp_path / "images", images, lambda *_: nullcontext(bar))
        return solver.solve("auto")

    return solve


def differences(found, cameras):
    """Return the median differences of the camera positions, relative to their median distance from
    the center, and of the viewing directions in degrees, after a similarity transform."""
    poses = {image.name: image.camera_to_file for image in found.model.images}
    names = sorted(poses)
    truth = [cameras[int(Path(name).stem.split()[1])].pose.astype(float) for name in names]
    left, _, right = np.linalg.svd(
        sum(true[:, :3] @ poses[name][:, :3].T for name, true in zip(names, truth, strict=True))
    )
    turn = left @ np.diag([1, 1, np.linalg.det(left @ right)]) @ right
    eyes = np.stack([turn @ poses[name][:, 3] for name in names])
    true = np.stack([pose[:, 3] for pose in truth])
    eyes, true = eyes - eyes.mean(axis=0), true - true.mean(axis=0)
    scale = (eyes * true).sum() / (eyes**2).sum()
    away = np.linalg.norm(scale * eyes - true, axis=1)
    cosine = [
        (turn @ poses[name][:, 2]) @ pose[:, 2] for name, pose in zip(names, truth, strict=True)
    ]
    angle = np.degrees(np.arccos(np.clip(cosine, -1, 1)))
    return np.median(away) / np.median(np.linalg.norm(true, axis=1)), np.median(angle)


@pytest.mark.parametrize("case", daily_but(GOOD, "flat ground without EXIF", "wall"))
def test_a_good_capture_is_accepted_with_right_cameras(solved, case):
    world, cameras, is_known = GOOD[case]
    found = solved(world, cameras, is_known)
    assert not found.verdict.is_refused, found.verdict
    assert not any(finding.kind != "focal length" for finding in found.verdict.findings)
    assert len(found.model.images) == len(cameras)
    away, angle = differences(found, cameras)
    assert away < 0.05
    assert angle < 4.0


@pytest.mark.parametrize("case", daily_but(TURNED, "quarter"))
def test_a_camera_that_turned_in_place_is_refused(solved, case):
    with suppress(RefusedError):
        found = solved(*TURNED[case])
        assert "turned" in [finding.kind for finding in found.verdict.findings]
        return
    with pytest.raises(RefusedError, match="the camera turned in place"):
        solved(*TURNED[case])


@pytest.mark.parametrize("case", daily_but(SQUEEZES, "object, flat"))
def test_photos_that_were_resized_to_another_shape_get_two_focal_lengths(solved, case):
    world, cameras, is_known = SQUEEZES[case]
    found = solved(world, cameras, is_known)
    (finding,) = found.verdict.findings
    assert finding.line.startswith("the images are photos of 4:3 that have been resized to ")
    assert not finding.is_refused
    away, angle = differences(found, cameras)
    assert away < 0.005
    assert angle < 0.2
    (camera,) = found.model.cameras.values()
    truth = cameras[0].lens
    assert camera.parameters["fl_x"] == pytest.approx(truth.fl_x, rel=0.01)
    assert camera.parameters["fl_y"] == pytest.approx(truth.fl_y, rel=0.01)
