"""What `nerfmac inspect` says and draws."""

import json

import numpy as np
from PIL import Image

from nerfmac.inspection import inspect_scene
from nerfmac.scenes.diagram import camera_lines, scene_picture
from tests.capture.structures import write_pictures
from tests.cli.refusals import refused
from tests.scene_factory import nerfmac
from tests.scenes.scene_files import save, write_transforms


def test_the_command_says_what_will_be_used_and_draws_it(tmp_path, capsys, monkeypatch):
    path = write_transforms(tmp_path / "yard", 9)
    save(tmp_path / "yard/images/004.png", np.full((16, 24, 3), 5, np.uint8))
    monkeypatch.chdir(tmp_path)
    assert nerfmac("inspect", path.parent) == 0
    told = capsys.readouterr().out
    assert "views      7 train, 2 test" in told
    assert "24x16 pixels, focal length 30.0, 44 degrees wide, no distortion" in told
    assert "images/004.png is too dark: 5 of 255 in the mean" in told
    with Image.open(tmp_path / "yard-cameras.png") as drawn:
        assert drawn.size == (1280, 640)


def test_what_is_no_scene_is_refused(tmp_path, capsys):
    nowhere = tmp_path / "nowhere"
    refused(capsys, tmp_path, "inspect", nowhere, names=[f"{nowhere} does not exist"])


def test_in_a_notebook_cameras_and_points_can_be_turned(scene):
    inspection = inspect_scene(scene, progress=False)
    page = inspection._repr_html_()
    data, _ = json.JSONDecoder().raw_decode(page[page.index("} = {") + 4 :])
    cameras = sum(len(frames) for frames in scene.splits.values())
    assert len(data["lines"]) == cameras
    assert np.abs(np.array([line[1:] for line in data["lines"]])).max() < 2
    assert inspection._repr_png_().startswith(b"\x89PNG")
    assert "views" in page


def test_a_camera_is_drawn_where_it_stands_with_its_picture_before_it(scene):
    lines = camera_lines(scene)
    frames = sorted(
        (frame for frames in scene.splits.values() for frame in frames), key=lambda f: f.name
    )
    for (_, line), frame in zip(lines, frames, strict=True):
        pose = frame.camera.pose
        np.testing.assert_allclose(line[0], pose[:, 3], atol=1e-6)
        ahead = (line[1:3] - line[0]) @ -pose[:, 2]
        np.testing.assert_allclose(ahead, ahead[0], rtol=1e-5)
        assert ahead[0] > 0
    colours = {colour for colour, _ in lines}
    assert (110, 110, 110) in colours, "those held out"


def test_the_drawing_shows_more_than_paper(scene):
    pixels = np.asarray(scene_picture(scene))
    assert (pixels < 200).any(axis=2).mean() > 0.005


def test_photographs_alone_are_captured_first(tmp_path, monkeypatch):
    write_pictures(tmp_path / "pile", ["a.png", "b.png", "c.png"])
    asked = []

    def captured(path):
        asked.append(path)
        return write_transforms(tmp_path / "found", 3)

    monkeypatch.setattr("nerfmac.inspection.inspection.captured", captured)
    inspection = inspect_scene(tmp_path / "pile", progress=False)
    assert asked == [tmp_path / "pile"]
    assert inspection.scene.name == "found"
