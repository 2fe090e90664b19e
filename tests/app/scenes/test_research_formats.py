"""Formats of research code that are read: NeuS and NSVF."""

import numpy as np
import pytest

from nerfmac.app.scenes import load_scene
from nerfmac.geometry.placement import Placement
from tests.app.scenes.scene_files import HEIGHT, WIDTH, matrix, pixels, save

K = np.array([[30.0, 0, 11.0], [0, 29.0, 8.5], [0, 0, 1]])
OPENCV = np.diag([1.0, -1.0, -1.0, 1.0])


def write_neus(folder, count=5, *, name="cameras_sphere.npz", images="image", factor=-2.5):
    """Projection matrices with arbitrary scale and sign, and a mask of each image."""
    folder.mkdir(parents=True, exist_ok=True)
    arrays = {}
    for index in range(count):
        world = np.eye(4)
        world[:3] = K @ np.linalg.inv(np.array(matrix(index)) @ OPENCV)[:3] * factor
        arrays |= {f"world_mat_{index}": world, f"scale_mat_{index}": np.diag([2.0, 2.0, 2.0, 1])}
        save(folder / images / f"{index:03d}.png", pixels(index))
        save(folder / "mask" / f"{index:03d}.png", (pixels(index)[..., 0] > 40) * np.uint8(255))
    np.savez(folder / name, **arrays)
    return folder


def write_nsvf(folder, prefixes="000122", *, intrinsics="30 11 8.5 0.\n0. 0. 0.\n0.\n1.\n16 24\n"):
    for index, prefix in enumerate(prefixes):
        name = f"{prefix}_view_{index:04d}"
        save(folder / "rgb" / f"{name}.png", pixels(index))
        (folder / "pose").mkdir(exist_ok=True)
        np.savetxt(folder / "pose" / f"{name}.txt", np.array(matrix(index)) @ OPENCV)
    (folder / "intrinsics.txt").write_text(intrinsics)
    (folder / "bbox.txt").write_text("-1 -2 -0.5 3 1 0.5 0.4")
    return folder


def in_files(scene, split, index):
    """The pose (3, 4) of a view in file coordinates."""
    placement, pose = scene.placement, scene.splits[split][index].camera.pose
    turned = placement.turned_to_file(pose[:, :3].T).T
    return np.column_stack([turned, placement.to_file(pose[:, 3])])


@pytest.mark.parametrize("form", [{}, {"name": "cameras.npz", "images": "rgb", "factor": 0.01}])
def test_neus_is_read_with_its_masks(tmp_path, form):
    scene = load_scene(write_neus(tmp_path, 5, **form), split="none")
    for index, frame in enumerate(scene.splits["train"]):
        lens = frame.camera.lens
        got = (lens.fl_x, lens.fl_y, lens.cx, lens.cy)
        np.testing.assert_allclose(got, (30, 29, 11, 8.5), rtol=1e-6)
        np.testing.assert_allclose(in_files(scene, "train", index), matrix(index)[:3], atol=1e-5)
        assert frame.mask == tmp_path / "mask" / f"{index:03d}.png"
    assert np.array(scene.views("train").kept_of(3)).shape == (HEIGHT, WIDTH)


@pytest.mark.parametrize(
    ("prefixes", "counts"),
    [("000122", {"train": 3, "val": 1, "test": 2}), ("00011", {"train": 3, "test": 2})],
)
def test_nsvf_is_read_with_its_splits_and_its_box(tmp_path, prefixes, counts):
    scene = load_scene(write_nsvf(tmp_path, prefixes))
    assert {name: len(part) for name, part in scene.splits.items()} == counts
    np.testing.assert_allclose(in_files(scene, "train", 2), matrix(2)[:3], atol=1e-5)
    np.testing.assert_allclose(in_files(scene, "test", 1), matrix(len(prefixes) - 1)[:3], atol=1e-5)
    assert scene.extent == 1.0
    expected = Placement(0.25, np.array([0.25, 0.625, 0.5]), 1.0)
    np.testing.assert_allclose(scene.placement.offset, expected.offset)
    lens = scene.splits["train"][0].camera.lens
    assert (lens.fl_x, lens.fl_y, lens.cx, lens.cy) == (30, 30, 11, 8.5)
