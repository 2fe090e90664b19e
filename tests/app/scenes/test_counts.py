"""Images that a scene contains but that are not used are counted."""

import pytest

from nerfmac.app.scenes import load_scene
from tests.app.scenes.scene_files import pixels, save, write_blender, write_transforms
from tests.app.scenes.test_phone_captures import polycam, record3d


def lines_of(caplog, path):
    caplog.clear()
    load_scene(path)
    return caplog.messages


@pytest.mark.parametrize(
    ("write", "image"),
    [
        (lambda folder: write_transforms(folder, 9), "images/more.jpg"),
        (lambda folder: write_blender(folder, train=9, test=2), "train/r_77.png"),
        (record3d, "rgbd/900.png"),
        (polycam, "keyframes/images/999.png"),
    ],
)
def test_images_without_a_camera_are_counted_in_every_format(tmp_path, write, image, caplog):
    write(tmp_path)
    assert lines_of(caplog, tmp_path) == []
    save(tmp_path / image, pixels(1))
    (line,) = lines_of(caplog, tmp_path)
    assert line.startswith("1 of ")
    assert line.endswith(f"are skipped, such as {tmp_path / image}")
