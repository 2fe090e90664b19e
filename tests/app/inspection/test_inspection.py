"""Output and diagram of `nerfmac inspect`."""

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from nerfmac import inspect_scene
from nerfmac.app.scenes.diagram import (
    CUBE,
    MARGIN,
    PANEL,
    UPWARDS,
    camera_lines,
    cube_line,
    scene_image,
    shown,
    up_line,
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


@pytest.mark.parametrize("up", [(0.0, 1.0, 0.0), (0.0, 0.0, -1.0), (0.48, -0.6, 0.64)])
def test_everything_is_drawn_along_up(scene, up):
    turned, before = replace(scene, up=up), replace(scene, up=(0.0, 0.0, 1.0))
    for (_, line), (_, there) in zip(camera_lines(turned), camera_lines(before), strict=True):
        assert line[0, 2] - 0.5 == pytest.approx((there[0] - 0.5) @ up, abs=1e-6)
        ahead, ahead_there = (each[1] - each[0] for each in (line, there))
        cosine = ahead_there @ up / np.linalg.norm(ahead_there)
        assert ahead[2] / np.linalg.norm(ahead) == pytest.approx(cosine, abs=1e-5)
    heights = (cube_line(before) - 0.5) @ up
    np.testing.assert_allclose(cube_line(turned)[:, 2] - 0.5, heights, atol=1e-6)
    start, tip = up_line(turned)[:2]
    np.testing.assert_allclose((tip - start)[:2], 0.0)
    assert tip[2] > start[2]
    drawn = np.abs(np.asarray(scene_image(turned)).astype(int) - UPWARDS).max(axis=2) < 60
    rows = np.flatnonzero(drawn[:, PANEL:].any(axis=1))
    assert rows[-1] - rows[0] > 0.1 * PANEL, "an arrow from the side"


def framed(scene, extent):
    scene = replace(scene, extent=extent)
    drawn = np.asarray(scene_image(scene)).astype(int)
    ink = np.abs(drawn - CUBE).max(axis=2) < 40
    ink[-40:] = False  # the words
    ink[:110, -340:] = False  # the legend
    return [np.flatnonzero(panel.any(axis=0)) for panel in np.split(ink, 2, axis=1)]


@pytest.mark.parametrize("extent", [1.0, 2.0, 3.5])
def test_the_cube_is_drawn_whole_and_to_scale(scene, extent):
    middle, half = shown(replace(scene, extent=extent))
    scale = (1 - MARGIN) * PANEL / 2 / half
    for across in framed(scene, extent):
        assert across[-1] - across[0] == pytest.approx(extent * scale, abs=4)
        center = PANEL / 2 + scale * (0.5 - middle[0])
        assert (across[0] + across[-1]) / 2 == pytest.approx(center, abs=3)


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
