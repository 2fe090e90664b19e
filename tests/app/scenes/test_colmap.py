"""COLMAP models: both file formats, all supported lenses, image search, and missing files."""

import struct

import numpy as np
import pytest

from nerfmac import InputError, load_scene
from tests.app.scenes.colmap_files import MODELS, OPENCV, write_colmap
from tests.app.scenes.projection import assert_same_pixels
from tests.app.scenes.scene_files import HEIGHT, WIDTH, matrix, pixels, save, write_unplaced

LENSES = {
    "SIMPLE_PINHOLE": ((30.0, 11.0, 8.5), {}),
    "PINHOLE": ((30.0, 29.0, 11.0, 8.5), {"fl_y": 29.0}),
    "SIMPLE_RADIAL": ((30.0, 11.0, 8.5, 0.08), {"k1": 0.08}),
    "RADIAL": ((30.0, 11.0, 8.5, 0.08, -0.03), {"k1": 0.08, "k2": -0.03}),
    "OPENCV": (OPENCV, {"fl_y": 29.0, "k1": 0.08, "k2": -0.03, "p1": 0.004, "p2": -0.006}),
    "FULL_OPENCV": (
        (*OPENCV, 0.01, 0.0, 0.0, 0.0),
        {"fl_y": 29.0, "k1": 0.08, "k2": -0.03, "p1": 0.004, "p2": -0.006, "k3": 0.01},
    ),
    "OPENCV_FISHEYE": (
        (30.0, 29.0, 11.0, 8.5, 0.08, -0.03, 0.01, 0.02),
        {"fl_y": 29.0, "k1": 0.08, "k2": -0.03, "k3": 0.01, "k4": 0.02, "is_fisheye": True},
    ),
    "RADIAL_FISHEYE": (
        (30.0, 11.0, 8.5, 0.08, -0.03),
        {"k1": 0.08, "k2": -0.03, "camera_model": "OPENCV_FISHEYE"},
    ),
    "SIMPLE_FISHEYE": ((30.0, 11.0, 8.5), {"camera_model": "OPENCV_FISHEYE"}),
    "FISHEYE": ((30.0, 29.0, 11.0, 8.5), {"fl_y": 29.0, "camera_model": "FISHEYE"}),
    "SIMPLE_RADIAL_FISHEYE": (
        (30.0, 11.0, 8.5, 0.08),
        {"k1": 0.08, "camera_model": "OPENCV_FISHEYE"},
    ),
}


def write_same(folder, model: str, count: int = 9):
    lens = {"fl_x": 30.0, "fl_y": 30.0, "cx": 11.0, "cy": 8.5, "w": WIDTH, "h": HEIGHT}
    return write_unplaced(folder, map(matrix, range(count)), **lens | LENSES[model][1])


@pytest.mark.parametrize("model", LENSES)
@pytest.mark.parametrize("binary", [True, False], ids=["binary", "text"])
def test_a_point_is_seen_at_the_pixel_where_a_transforms_json_sees_it(tmp_path, model, binary):
    parameters = LENSES[model][0]
    write_colmap(tmp_path / "a", 9, model=model, parameters=parameters, binary=binary)
    scene, same = load_scene(tmp_path / "a"), load_scene(write_same(tmp_path / "b", model))
    assert_same_pixels(scene, same)
    assert_same_pixels(same, scene)
    assert [frame.name for frame in scene.splits["test"]] == ["000.png", "008.png"]


def test_the_scene_is_centered_scaled_and_level(tmp_path):
    scene = load_scene(write_colmap(tmp_path), split="none")
    poses = np.stack([frame.camera.pose for frame in scene.splits["train"]])
    assert np.linalg.norm(poses[:, :, 3] - 0.5, axis=1).mean() == pytest.approx(1.0, abs=0.02)
    assert scene.up == (0.0, 0.0, 1.0)
    np.testing.assert_allclose(poses[:, 2, 0], 0.0, atol=0.02, err_msg="right axes are level")
    assert (poses[:, 2, 1] > 0.3).all(), "up axes point to the sky"
    assert scene.name == tmp_path.name


@pytest.mark.parametrize(
    ("sparse", "images", "given"),
    [
        ("sparse/0", "images", ""),
        ("sparse/0", "images", "sparse/0"),
        ("sparse", "images", ""),
        ("", "images", ""),
        ("sparse/0", "sparse/0/images", ""),
        ("sparse/0", "input", ""),
        ("sparse/0", "rgb", ""),
        ("sparse/0", "", ""),
        ("colmap/sparse/0", "images", ""),
        ("colmap_sparse/0", "images", ""),
        ("colmap_text", "images", ""),
        ("sparse/2", "images", ""),
        ("dense/0/sparse", "dense/0/images", ""),
        ("colmap_sparse/0", "images", "colmap_sparse/0"),
        ("distorted/sparse", "images", "distorted/sparse"),
        ("sparse/1", "images", "sparse/1"),
    ],
)
def test_the_model_and_its_images_are_found(tmp_path, sparse, images, given):
    write_colmap(tmp_path, 3, sparse=sparse, images=images)
    scene = load_scene(tmp_path / given, split="none")
    assert scene.name == tmp_path.name or sparse.startswith("dense")
    (frame, *_) = scene.splits["train"]
    assert frame.image == tmp_path / images / "000.png"


def test_points_make_the_scene_larger_up_to_a_limit(tmp_path):
    write_colmap(tmp_path, 5)
    assert load_scene(tmp_path).extent == 4.0
    path = tmp_path / "sparse/0/points3D.bin"
    content = bytearray(path.read_bytes())
    pose = np.array(matrix(0))
    for far, extent in ((25.0, 16.0), (2500.0, 16.0), (12.0, 8.0)):
        place = pose[:3, 3] - far * pose[:3, 2]  # in the first image; its camera looks along -z
        content[16:40] = place.tobytes()
        path.write_bytes(content)
        assert load_scene(tmp_path).extent == extent
    path.unlink()
    assert load_scene(tmp_path).extent == 4.0


def test_images_without_a_camera_or_absent_are_counted(tmp_path, caplog):
    write_colmap(tmp_path, 6, absent=(2,))
    save(tmp_path / "images/extra.png", pixels(9))
    assert len(load_scene(tmp_path, split="none").splits["train"]) == 5
    place = tmp_path / "sparse/0"
    assert caplog.messages == [
        f"1 of 6 images of {place} do not exist; using the other 5",
        f"1 of 6 images have no camera in {tmp_path} and are skipped, such as "
        f"{tmp_path / 'images/extra.png'}",
    ]


@pytest.mark.parametrize(
    ("model", "parameters", "complaint"),
    [
        ("FULL_OPENCV", (*OPENCV, 0.01, 0.1, 0.0, 0.0), "FULL_OPENCV with a denominator"),
        ("PINHOLE", (-30.0, 29.0, 11.0, 8.5), "camera 100 .*fl_x is -30; expected more than 0"),
        ("PINHOLE", (30.0, float("nan"), 11.0, 8.5), "cameras.* expected finite numbers"),
    ],
)
@pytest.mark.parametrize("binary", [True, False], ids=["binary", "text"])
def test_a_lens_that_cannot_be_had_is_refused(tmp_path, model, parameters, complaint, binary):
    write_colmap(tmp_path, 2, model=model, parameters=parameters, binary=binary)
    with pytest.raises(InputError, match=complaint):
        load_scene(tmp_path)


def test_an_unknown_number_of_a_camera_model_is_refused(tmp_path):
    write_colmap(tmp_path, 2)
    file = tmp_path / "sparse/0/cameras.bin"
    content = file.read_bytes()
    file.write_bytes(content[:12] + struct.pack("<i", 99) + content[16:])
    expected = rf"camera 100 has model number 99; expected 0 to {len(MODELS) - 1};"
    with pytest.raises(InputError, match=expected):
        load_scene(tmp_path)
