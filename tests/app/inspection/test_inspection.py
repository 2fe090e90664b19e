"""Output and diagram of `nerfmac inspect`."""

import numpy as np
from PIL import Image

from nerfmac import inspect_scene
from nerfmac.app.scenes.diagram import (
    camera_lines,
)
from tests.app.capture.structures import write_images
from tests.app.scenes.scene_files import save, write_transforms
from tests.scene_factory import nerfmac


def test_the_command_says_what_will_be_used_and_draws_it(tmp_path, capsys, monkeypatch):
    path = write_transforms(tmp_path / "yard", 9)
    save(tmp_path / "yard/images/004.png", np.full((16, 24, 3), 5, np.uint8))
    monkeypatch.chdir(tmp_path)
    assert nerfmac("inspect", path.parent) == 0
    assert [each.name for each in tmp_path.iterdir()] == ["yard"]
    assert nerfmac("inspect", path.parent, "--out", "yard-cameras.png") == 0
    told = capsys.readouterr().out
    assert "views      7 train, 2 test (held out: every 8th view)" in told
    assert "cube       side 2 in scene units" in told
    assert "in file coordinates 6.06 around (0.00, 0.00, 0.00), which is --crop" in told
    assert "% of the cameras" in told
    assert "24x16 pixels, focal length 30.0, 44 degrees wide, no distortion" in told
    assert "images/004.png is blurred: 0% of the median sharpness" in told
    with Image.open(tmp_path / "yard-cameras.png") as drawn:
        assert drawn.size == (1280, 640)


def test_a_camera_is_drawn_where_it_stands_with_its_image_before_it(scene):
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
    colors = {color for color, _ in lines}
    assert (110, 110, 110) in colors, "those held out"


def test_photos_alone_are_captured_first(tmp_path, monkeypatch):
    write_images(tmp_path / "pile", ["a.png", "b.png", "c.png"])
    asked = []

    def captured(path):
        asked.append(path)
        return write_transforms(tmp_path / "found", 3)

    monkeypatch.setattr("nerfmac.app.inspection.inspection.captured", captured)
    inspection = inspect_scene(tmp_path / "pile", progress=False)
    assert asked == [tmp_path / "pile"]
    assert inspection.scene.name == "found"
