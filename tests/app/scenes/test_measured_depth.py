"""Depth images are read with the unit, the direction, and the marker with which views agree."""

import json
import re

import numpy as np
import pytest
from PIL import Image

from nerfmac import Camera, Scene, load_scene
from nerfmac.app.inspection.images import depth_report
from nerfmac.app.scenes import read_again
from nerfmac.app.scenes.depth_images import AS_STORED
from nerfmac.common import Fields, as_json, read_as
from nerfmac.geometry import Lens, along_rays
from tests.app.scenes import depth_scenes
from tests.app.scenes.depth_scenes import box_points, box_views
from tests.scene_factory import nerfmac

pytestmark = pytest.mark.slow

WIDE = Lens(32, 24, 17.0, 17.0, 15.5, 12.5)  # 86 degrees wide
NARROW = Lens(32, 24, 45.0, 45.0, 15.5, 12.5)  # 39 degrees wide
FAR = 1.1  # A part of the depths is larger.


def written(folder, *, lens=WIDE, rays=False, factor=1.0, marker=None, kind="png", change=None):
    """A scene whose depth images are stored in a certain way, and the true depths in meters."""
    views = box_views(20, lens, spread=1.0)
    size = lens.scaled(64, 48)
    views = [view._replace(depth=box_points(view.pose, size)[1]) for view in views]
    path = depth_scenes.nerfstudio(folder, views, lens) / "transforms.json"
    for index, view in enumerate(views):
        depth = along_rays(view.depth, lens) if rays else view.depth
        stored = depth * 1000.0 * factor
        if marker is not None:
            stored = np.where(view.depth > FAR, marker, stored)
        if change is not None:
            stored = change(stored)
        to = folder / f"depth/{index:03d}.{kind}"
        if kind == "npy":
            np.save(to, stored.astype(np.float64))
        else:
            Image.fromarray(np.rint(stored).astype(np.uint16)).save(to)
    path.write_text(re.sub(r"(depth/\d+)\.\w+", rf"\1.{kind}", path.read_text()))
    return path, [view.depth for view in views]


def assert_true(scene, truth, marker=None):
    """The decoded depths, in meters, are the true ones where they are known."""
    unit = scene.placement.scale
    for frame, depth in zip(scene.splits["train"], truth, strict=True):
        decoded, confidence = frame.decode_depth()
        known = confidence > 0
        assert known.any()
        np.testing.assert_allclose(decoded[known] / unit, depth[known], atol=6e-3)
        if marker is not None:
            assert not known[depth > FAR].any()


CASES = [
    {"rays": True},
    {"rays": True, "lens": NARROW},
    {"factor": 10.0},
    {"factor": 0.1, "kind": "npy"},
    {"marker": 65535},
    {"marker": 10000},
    {"marker": 1e10, "kind": "npy"},
    {"marker": 12345.678, "kind": "npy"},
    {"rays": True, "marker": 65535},
    {"rays": True, "factor": 0.1, "kind": "npy"},
    {"factor": 0.1, "marker": 65535, "kind": "npy"},
    {"rays": True, "factor": 0.1, "marker": 65535, "kind": "npy"},
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: " ".join(case))
def test_the_reading_with_which_views_agree_is_used(tmp_path, case, caplog):
    path, truth = written(tmp_path, **case)
    scene = load_scene(path, split="none")
    assert_true(scene, truth, case.get("marker"))
    told = [line for line in caplog.messages if "depth images of" in line]
    assert len(told) == ("marker" in case) + ("rays" in case or "factor" in case)
    if "rays" in case:
        assert "as distances along the rays instead of depths along the optical axis" in told[-1]
    if "factor" in case:
        assert f"with all depths multiplied by {1 / case['factor']:.4g}" in told[-1]
    if "marker" in case:
        assert f"the value {case['marker']:g} in the depth images of {path} is" in told[0]
    assert depth_report(scene)[1] == []


def noisy(stored):
    return stored * (1 + 0.02 * np.random.default_rng(int(stored.sum())).normal(size=stored.shape))


def with_holes(stored):
    return np.where(np.random.default_rng(int(stored.sum())).random(stored.shape) < 0.2, 0, stored)


GOOD = [{}, {"lens": NARROW}, {"kind": "npy"}, {"change": noisy}, {"change": with_holes}]


@pytest.mark.parametrize("case", GOOD, ids=["plain", "narrow", "npy", "noisy", "holes"])
def test_depth_that_is_right_is_read_as_stored(tmp_path, case, caplog):
    path, _ = written(tmp_path, **case)
    scene = load_scene(path)
    assert scene.depth_reading == AS_STORED
    assert not [line for line in caplog.messages if "depth images of" in line]
    assert depth_report(scene)[1] == []


def test_a_floor_seen_from_a_ring_is_measured(tmp_path):
    """Each row of all images has the same depth, because the cameras have the same height."""
    path, _ = written(tmp_path)
    values = json.loads(path.read_text())
    row = (np.arange(48) + 0.5) / 48 * 24 - 12.5
    for index, frame in enumerate(values["frames"]):
        angle = 2 * np.pi * index / len(values["frames"])
        eye = 2.6 * np.cos(angle), 2.6 * np.sin(angle), 1.7
        pose = Camera.look_at(eye, (0, 0, 0.2), (0, 0, 1), WIDE).pose
        frame["transform_matrix"] = [*pose.tolist(), [0, 0, 0, 1]]
        down = row / WIDE.fl_y * -pose[2, 1] - pose[2, 2]
        depth = np.where(down < -0.2, -1.7 / np.minimum(down, -0.2), 0)
        image = np.repeat(np.rint(1000 * depth)[:, None], 64, axis=1).astype(np.uint16)
        Image.fromarray(image).save(tmp_path / frame["depth_file_path"])
    path.write_text(json.dumps(values))
    assert load_scene(path).depth_reading == AS_STORED


def test_a_resumed_run_uses_the_reading_of_its_training(tmp_path):
    path, _ = written(tmp_path, rays=True, marker=65535)
    record = load_scene(path).recorded()
    assert record.depth_reading.along_rays
    same = read_as(Scene, Fields.of(json.loads(json.dumps(as_json(record))), str(path)))
    assert same.depth_reading == record.depth_reading
    # These depths, as stored, agree with the views, so that they would be read as stored now.
    written(tmp_path)
    assert read_again(same).depth_reading == record.depth_reading
    assert load_scene(path).depth_reading == AS_STORED


def test_no_depth_ignores_all_depth_images(tmp_path, capsys):
    path, _ = written(tmp_path)
    scene = load_scene(path, depth=False)
    assert not any(frame.depth for part in scene.splits.values() for frame in part)
    assert scene.points is None
    record = scene.recorded()
    assert not any(f.depth for f in read_again(record).splits["train"])
    assert nerfmac("inspect", path, "--no-depth") == 0
    told = capsys.readouterr().out
    assert "\ndepth " not in told
    assert nerfmac("inspect", path) == 0
    assert "\ndepth " in capsys.readouterr().out
