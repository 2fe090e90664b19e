"""Images with an EXIF orientation are read as the program that estimated the cameras read them."""

import json

import numpy as np
import pytest
from PIL import Image

from nerfmac.app.scenes import load_scene
from nerfmac.app.scenes.ply_points import write_ply_points
from tests.app.capture.corner import LENS, cameras, papers, seen
from tests.app.scenes.colmap_files import write_colmap
from tests.app.scenes.scene_files import pixels, write_transforms

HALF, QUARTER = 3, 6
STORED = {HALF: lambda image: image[::-1, ::-1], QUARTER: lambda image: np.rot90(image, 1)}
"""By EXIF orientation, how the pixels of an upright image are stored."""


def tag(path, image, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(np.ascontiguousarray(image)).save(path, exif=exif, quality=95)


@pytest.fixture(scope="module")
def views():
    sheets = papers()
    return [(camera, seen(camera, sheets)) for camera in cameras(6)]


def write_corner(folder, views, tagged, *, applied, points=True):
    """A scene of the corner; the orientation of `tagged` images is `applied` by its cameras."""
    frames = []
    (folder / "images").mkdir(parents=True)
    for index, (camera, image) in enumerate(views):
        path = folder / f"images/{index}.jpg"
        if index in tagged:
            tag(path, STORED[HALF](image) if applied else image, HALF)
        else:
            Image.fromarray(image).save(path, quality=95)
        matrix = [*camera.pose.astype(float).tolist(), [0.0, 0.0, 0.0, 1.0]]
        frames.append({"file_path": f"images/{index}.jpg", "transform_matrix": matrix})
    lens = {"w": LENS.width, "h": LENS.height, "fl_x": LENS.fl_x, "fl_y": LENS.fl_y}
    values = {**lens, "frames": frames}
    if points:
        random = np.random.default_rng(3)
        walls = random.uniform(0, 1.4, (900, 3))
        walls[np.arange(900), np.arange(900) % 3] = 0.0
        write_ply_points(folder / "points.ply", walls, np.full((900, 3), 128, np.uint8))
        values["ply_file_path"] = "points.ply"
    path = folder / "transforms.json"
    path.write_text(json.dumps(values))
    return path


def readings(path):
    frames = load_scene(path, split="none").splits["train"]
    return [frame.is_upright for frame in frames]


@pytest.mark.parametrize("applied", [True, False])
@pytest.mark.parametrize("tagged", [(1, 4), range(6)], ids=["some", "all"])
def test_the_colors_of_sparse_points_decide(tmp_path, views, tagged, applied, caplog):
    path = write_corner(tmp_path, views, tagged, applied=applied)
    read = readings(path)
    assert [read[index] for index in tagged] == [applied] * len(tagged)
    lines = [line for line in caplog.messages if "EXIF" in line]
    assert len(lines) == 1
    assert lines[0].startswith(f"{len(tagged)} of 6 images of {path} have an EXIF orientation")
    assert "because sparse points then have the same color in all images" in lines[0]


def test_without_evidence_pixels_are_read_as_stored_with_one_line(tmp_path, views, caplog):
    path = write_corner(tmp_path, views, (2,), applied=False, points=False)
    scene = load_scene(path, split="none")
    assert [frame.is_upright for frame in scene.splits["train"]][2] is False
    got = np.array(scene.views("train").image(2)).astype(int)
    assert np.abs(got - views[2][1]).mean() < np.abs(got[::-1, ::-1] - views[2][1]).mean() / 3
    (line,) = [line for line in caplog.messages if "EXIF" in line]
    assert "1 of them is read as stored, like COLMAP and instant-ngp" in line


@pytest.mark.parametrize("orientation", [2, 3, 4])
def test_colmap_ignores_the_tag(tmp_path, orientation, caplog):
    folder = write_colmap(tmp_path, 4)
    tag(folder / "images/001.png", pixels(1), orientation)
    views = load_scene(folder, split="none").views("train")
    np.testing.assert_array_equal(np.array(views.image(1)), pixels(1))
    assert "1 of 4 images" in caplog.text


def test_an_image_whose_size_decides_is_followed_by_those_whose_size_does_not(tmp_path):
    for name, stored in (("a", True), ("b", False)):
        path = write_transforms(tmp_path / name, 3)
        turned = pixels(0) if stored else STORED[QUARTER](pixels(0))
        tag(tmp_path / name / "images/000.png", turned, QUARTER)
        tag(tmp_path / name / "images/001.png", pixels(1), HALF)
        assert readings(path) == [not stored, not stored, True]
