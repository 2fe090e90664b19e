"""What phones' programs write: Record3D, Polycam and NeRFCapture."""

import numpy as np
import pytest

from nerfmac.app.paths.curve import quaternions
from nerfmac.app.scenes import load_scene
from nerfmac.common.checks import InputError
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
        (folder / images / f"{index}.depth").write_bytes(b"depth")
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


def test_record3ds_frames_may_have_lenses_of_their_own(tmp_path):
    lengths = [[30.0 + index, 29.0, 11.0, 8.0] for index in range(COUNT + 3)]
    frames = load_scene(record3d(tmp_path, perFrameIntrinsicCoeffs=lengths), split="none")
    assert [f.camera.lens.fl_x for f in frames.splits["train"]] == [30.0 + i for i in range(COUNT)]


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        ({"poses": []}, "poses is \\[\\]; expected a list of rows of 7 numbers"),
        ({"poses": [[0, 0, 0, 0, 1, 2, 3]]}, "pose 0 has the quaternion"),
        ({"K": [1, 2, 3]}, "K is .*; expected a list of 9"),
        ({"perFrameIntrinsicCoeffs": [[30, 29, 11, 8]]}, "pose 1: perFrame.* has only 1 rows"),
        ({"w": HEIGHT, "h": WIDTH}, "pose 0 are for 16x24"),
    ],
)
def test_what_record3d_cannot_have_written_is_refused(tmp_path, more, complaint):
    with pytest.raises(InputError, match=complaint):
        load_scene(record3d(tmp_path, **more))


@pytest.mark.parametrize("corrected", [False, True])
def test_polycam_sees_what_a_transforms_json_sees(tmp_path, corrected):
    scene = load_scene(polycam(tmp_path / "a", corrected=corrected))
    assert_same(scene, load_scene(write_same(tmp_path / "b")))


def test_polycams_corrected_cameras_are_preferred(tmp_path):
    polycam(tmp_path)
    frame = load_scene(polycam(tmp_path, corrected=True)).splits["test"][0]
    assert frame.image.parent.name == "corrected_images"


def test_nerfcapture_writes_a_transforms_json_with_depth_beside_the_images(tmp_path):
    frames = []
    for index in range(4):
        save(tmp_path / f"images/{index}.png", pixels(index))
        save(tmp_path / f"images/{index}.depth.png", pixels(index))
        own = {**LENS, "file_path": f"images/{index}", "depth_path": f"images/{index}.depth.png"}
        frames.append({**own, "transform_matrix": matrix(index)})
    write_json(tmp_path / "transforms.json", {"frames": frames, "depth_integer_scale": 0.1})
    scene = load_scene(tmp_path, split="none")
    assert [frame.image.name for frame in scene.splits["train"]] == [f"{i}.png" for i in range(4)]
