"""Points of a field with a known surface, and cameras that are read again where they were."""

import json

import numpy as np
import pytest

from nerfmac import Run, load_scene
from nerfmac.app.export import extract_cameras, extract_points
from scripts import blender_cameras
from tests.app.export.egg import color_of, distance_to, size_of, slope_of
from tests.app.scenes.scene_files import write_transforms
from tests.scene_factory import CONFIG, nerfmac


@pytest.fixture(scope="module", autouse=True)
def few_rays_at_a_time():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nerfmac.app.export.points.RAYS", 2**12)
        yield


def test_points_lie_on_the_surface_with_its_normal_and_color(run):
    points = extract_points(run, count=1500, progress=False)
    assert points.positions.shape == points.normals.shape == points.colors.shape == (1500, 3)
    position = run.scene.placement.to_scene(points.positions)
    is_egg = size_of(position) < 1.1  # the others are the crumb's
    assert 0.9 < is_egg.mean() <= 1.0
    away = distance_to(position[is_egg])
    # Light ends about where the optical thickness is one, a little inside of this soft surface.
    assert np.abs(away).mean() < 0.01
    assert np.percentile(np.abs(away), 99) < 0.02
    slope = slope_of(position[is_egg])
    facing = slope / np.linalg.norm(slope, axis=1, keepdims=True)
    assert np.percentile((points.normals[is_egg] * facing).sum(axis=1), 5) > 0.98
    color = 255 * color_of(position[is_egg])
    assert np.abs(points.colors[is_egg] - color).mean() < 2


@pytest.fixture
def capture(tmp_path, on_the_cpu):
    """A folder with a distorted lens and a custom placement, and a run on it."""
    folder = tmp_path / "capture"
    folder.mkdir()
    given = {"scale": 0.21, "offset": [0.4, 0.6, 0.55], "k1": 0.05, "p2": -0.01, "up": [0, 1, 1]}
    write_transforms(folder, 5, **given)
    return folder, Run.begin(load_scene(folder, split="none"), CONFIG)


def test_cameras_are_read_again_where_the_run_had_them(capture):
    folder, run = capture
    values = json.loads(json.dumps(extract_cameras(run)))
    (folder / "transforms.json").write_text(json.dumps(values))
    again = load_scene(folder, split="none")
    assert again.extent == run.scene.extent
    assert again.up == pytest.approx(run.scene.up)
    for frame, camera in zip(again.splits["train"], run.scene.cameras("train"), strict=True):
        assert frame.camera.lens == camera.lens
        assert frame.camera.pose == pytest.approx(camera.pose, abs=1e-6)


def test_all_cameras_are_written_with_their_split(tmp_path, on_the_cpu, capsys):
    write_transforms(tmp_path / "scene", 9)
    scene = load_scene(tmp_path / "scene", split=3)
    Run.begin(scene, CONFIG).save(tmp_path / "run")
    assert nerfmac("export", tmp_path / "run", tmp_path / "cameras.json", "--device", "cpu") == 0
    assert "9 cameras (6 train, 3 test)" in capsys.readouterr().out
    (tmp_path / "cameras.json").rename(tmp_path / "scene/transforms.json")
    again = load_scene(tmp_path / "scene")
    for split in ("train", "test"):
        assert len(again.splits[split]) == len(scene.splits[split])
        for got, want in zip(again.splits[split], scene.splits[split], strict=True):
            assert got.name == want.name
            assert got.camera.pose == pytest.approx(want.camera.pose, abs=1e-6)


def test_blender_s_cameras_see_points_where_the_run_s_do(capture):
    _, run = capture
    values = extract_cameras(run)
    for frame in values["frames"]:
        settings = blender_cameras.settings(frame)
        point = np.array(frame["transform_matrix"]) @ [0.2, -0.1, -2.0, 1.0]
        local = np.linalg.inv(np.array(frame["transform_matrix"])) @ point
        # Blender's projection: the sensor's width spans the image's longer side.
        side = max(frame["w"], frame["h"])
        scale = side * settings["lens"] / settings["sensor_width"]
        x = frame["w"] / 2 + scale * local[0] / -local[2] - settings["shift_x"] * side
        y = frame["h"] / 2 - scale * local[1] / -local[2] + settings["shift_y"] * side
        assert x == pytest.approx(frame["cx"] + frame["fl_x"] * local[0] / -local[2])
        assert y == pytest.approx(frame["cy"] - frame["fl_x"] * local[1] / -local[2])
