"""What phones' programs write: Record3D, Polycam and NeRFCapture."""

import numpy as np
import pytest

from nerfmac import InputError, load_scene
from nerfmac.app.paths.curve import quaternions
from tests.app.scenes.projection import assert_same_pixels
from tests.app.scenes.scene_files import (
    HEIGHT,
    LENS,
    WIDTH,
    matrix,
    pixels,
    save,
    write_json,
    write_unplaced,
)

COUNT = 9
INTRINSICS = (30.0, 29.0, 11.0, 8.5)


def write_same(folder):
    return write_unplaced(folder, map(matrix, range(COUNT)), "{:06d}.png", **LENS)


def record3d(folder, *, images="rgbd", name="metadata", count=COUNT + 3, **more):
    rows = []
    for index in range(count):
        pose = np.array(matrix(index))
        w, x, y, z = quaternions(pose[None, :3, :3])[0]
        rows.append([x, y, z, w, *pose[:3, 3]])
    for index in range(COUNT):
        save(folder / images / f"{index}.png", pixels(index))
    fl_x, fl_y, cx, cy = INTRINSICS
    intrinsics = [fl_x, 0, 0, 0, fl_y, 0, cx, cy, 1]
    values = {"w": WIDTH, "h": HEIGHT, "K": intrinsics, "poses": rows, "fps": 60}
    write_json(folder / name, values | more)
    return folder


def polycam(folder, *, corrected=False):
    prefix = "corrected_" if corrected else ""
    for index in range(COUNT):
        stamp = 20517000 + 37 * index
        save(folder / f"keyframes/{prefix}images/{stamp}.png", pixels(index))
        values = dict(zip(("fx", "fy", "cx", "cy"), INTRINSICS, strict=True))
        values |= {"width": WIDTH, "height": HEIGHT, "blur_score": 40.0, "timestamp": stamp}
        rows = np.array(matrix(index))[:3]
        values |= {f"t_{i}{j}": rows[i, j] for i in range(3) for j in range(4)}
        write_json(folder / f"keyframes/{prefix}cameras/{stamp}.json", values)
    return folder


def assert_same(scene, same) -> None:
    """As `assert_same_pixels`, whatever the images are called."""
    for split, frames in scene.splits.items():
        assert len(frames) == len(same.splits[split])
    names = iter(range(100))
    for each in (scene, same):
        for frame in each.splits["train"]:
            object.__setattr__(frame, "name", str(next(names) % len(each.splits["train"])))
    assert_same_pixels(scene, same)
    assert_same_pixels(same, scene)


@pytest.mark.parametrize(
    ("images", "name"), [("rgbd", "metadata"), ("rgb", "metadata.json"), ("images", "metadata")]
)
def test_record3d_sees_what_a_transforms_json_sees(tmp_path, images, name):
    scene = load_scene(record3d(tmp_path / "a", images=images, name=name))
    assert_same(scene, load_scene(write_same(tmp_path / "b")))


@pytest.mark.parametrize("corrected", [False, True])
def test_polycam_sees_what_a_transforms_json_sees(tmp_path, corrected):
    scene = load_scene(polycam(tmp_path / "a", corrected=corrected))
    assert_same(scene, load_scene(write_same(tmp_path / "b")))


def test_polycams_corrected_cameras_are_preferred(tmp_path):
    polycam(tmp_path)
    frame = load_scene(polycam(tmp_path, corrected=True)).splits["test"][0]
    assert frame.image.parent.name == "corrected_images"


FOCAL = 31.0


def rows(count: int, *, far: float = 5.0) -> np.ndarray:
    table = np.zeros((count, 17))
    for index in range(count):
        right, up, backwards, position = np.array(matrix(index))[:3].T
        given = [-up, right, backwards, position, (HEIGHT, WIDTH, FOCAL)]
        table[index] = [*np.stack(given, axis=1).ravel(), 2.0, far]
    return table


def write_llff(folder, count=9, *, table=None, images="images", factor=1):
    for index in range(count):
        small = pixels(index, width=WIDTH // factor, height=HEIGHT // factor)
        save(folder / images / f"{index:03d}.png", small)
    np.save(folder / "poses_bounds.npy", rows(count) if table is None else table)
    return folder


def test_a_point_is_seen_at_the_pixel_where_a_transforms_json_sees_it(tmp_path):
    path = write_unplaced(tmp_path / "b", map(matrix, range(9)), fl_x=FOCAL)
    scene, same = load_scene(write_llff(tmp_path / "a")), load_scene(path)
    assert_same_pixels(scene, same)
    assert_same_pixels(same, scene)


def test_cameras_that_look_in_one_direction_are_placed_by_their_depths(tmp_path, caplog):
    table = rows(6)
    for index, row in enumerate(table):
        down, right, backwards = (0, -1, 0), (1, 0, 0), (0, 0, 1)
        eye = 0.3 * index, 0.2 * (index % 2), 10.0
        size = HEIGHT, WIDTH, FOCAL
        row[:15] = np.stack([down, right, backwards, eye, size], axis=1).ravel()
        row[15:] = 3.0, 5.0
    scene = load_scene(write_llff(tmp_path, 6, table=table), split="none")
    poses = np.stack([frame.camera.pose for frame in scene.splits["train"]])
    ahead = np.einsum("ij,ij->i", 0.5 - poses[:, :, 3], -poses[:, :, 2])
    np.testing.assert_allclose(ahead, ahead[0], atol=1e-6)
    assert 0.9 < ahead[0] < 1.0
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda t: t[:, :16], r"float64 with shape \(9, 16\); expected .* shape \(images, 17\)"),
        (lambda t: t.astype(int), "contains int64"),
        (lambda t: t * np.where(np.arange(17) == 3, np.nan, 1), "not finite"),
        (lambda t: t[:7], "has 7 poses, but there are 9 in images; the number must be"),
        (lambda t: t * np.where(np.arange(17) == 14, -1, 1), "row 0: fl_x is -31"),
        (lambda t: t * np.where(np.arange(17) == 4, 1.03, 1), "expected whole numbers"),
        (lambda t: t * np.where(np.arange(17) == 4, 2, 1), "row 0 are for 24x32"),
        (lambda t: t * np.where(np.arange(17) % 5 == 1, -1, 1), "row 0 is a reflection"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused(tmp_path, change, complaint):
    write_llff(tmp_path, 9, table=change(rows(9)))
    with pytest.raises(InputError, match=complaint):
        load_scene(tmp_path)
