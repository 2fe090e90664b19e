"""The scene cube without stray cameras and points; formats of images that are not read."""

import numpy as np
import pytest

from nerfmac import Camera, Lens
from nerfmac.app.scenes.placement import fit
from nerfmac.geometry.placement import Placement
from tests.app.capture.test_capture import photos, solved, somewhere
from tests.app.cli.refusals import refused
from tests.app.scenes.scene_files import write_transforms

LENS = Lens.from_fov(1.0, 64, 48)
RANDOM = np.random.default_rng(7)
THING = RANDOM.uniform(-0.25, 0.25, (2700, 3))
SHELL = RANDOM.normal(size=(300, 3))
SHELL /= np.linalg.norm(SHELL, axis=1, keepdims=True)


def ring(count: int = 36, far: float = 1.9, high: float = 0.6, first: float = 0) -> list:
    """Cameras around an object of side 0.5, by default at distance 2, a little above."""
    angles = first + 2 * np.pi * np.arange(count) / count
    eyes = np.stack([far * np.cos(angles), far * np.sin(angles), np.full(count, high)], axis=1)
    return [Camera.look_at(eye, (0, 0, 0), (0, 0, 1), LENS).pose.astype(float) for eye in eyes]


def strewn(count: int, far: float) -> list[np.ndarray]:
    """Cameras `far` away or up to twice as far, looking anywhere."""
    poses = []
    for eye in SHELL[:count] * RANDOM.uniform(far, 2 * far, (count, 1)):
        target = eye + RANDOM.normal(size=3)
        poses.append(Camera.look_at(eye, target, (0, 0, 1), LENS).pose.astype(float))
    return poses


def placed(poses: list[np.ndarray], points: np.ndarray | None = THING) -> Placement:
    return fit(poses, False, "here", points=points, tangents=[LENS.tangents] * len(poses))


@pytest.mark.parametrize("far", [40.0, 400.0])
@pytest.mark.parametrize("points", [None, THING], ids=["without points", "with points"])
def test_a_tenth_of_stray_cameras_changes_nothing(far, points, caplog):
    usual, given = placed(ring(), points), placed([*ring(), *strewn(4, far)], points)
    assert given.extent == usual.extent == 4.0
    assert given.scale == pytest.approx(usual.scale)
    np.testing.assert_allclose(given.offset, usual.offset)
    assert [line[:19] for line in caplog.messages] == ["4 of 40 cameras of "]


@pytest.mark.parametrize(
    "strays",
    [
        RANDOM.uniform(-40, 40, (300, 3)),
        RANDOM.uniform(-400, 400, (300, 3)),
        30 * RANDOM.normal(size=(300, 3)),
        100 * THING[:300],
        SHELL * np.exp(RANDOM.uniform(0, 7, (300, 1))),
    ],
    ids=["a cube", "a large cube", "a cloud", "too large by far", "along rays"],
)
def test_a_tenth_of_stray_points_does_not_make_the_cube_larger(strays):
    assert placed(ring(), np.concatenate([THING, strays])).extent == 4.0


def test_strays_beyond_a_far_wall_do_not_hide_it():
    wall = 5.0 * SHELL * (1, 1, 0.2)
    assert placed(ring(), np.concatenate([THING, wall])).extent == 8.0
    strays = SHELL[:150] * np.exp(RANDOM.uniform(3, 7, (150, 1)))
    assert placed(ring(), np.concatenate([THING, wall, strays])).extent == 8.0


NOISE = np.random.default_rng(3)
VASE = 0.3 * NOISE.normal(size=(1000, 3)) * (0.5, 1.0, 0.7)


def wall(radius: float, count: int) -> np.ndarray:
    """Points all around, as high as the cameras look."""
    angles = 2 * np.pi * np.arange(count) / count
    heights = np.linspace(-0.45, -0.2, count) * radius
    return np.stack([radius * np.cos(angles), radius * np.sin(angles), heights], axis=1)


def test_few_points_on_the_walls_make_the_cube_as_large_as_the_room():
    cameras = ring(12, 2.9, 0.77, 0.2)
    assert placed(cameras, VASE).extent == 4.0
    for radius, side in ((5.5, 4.0), (8.0, 8.0), (14.0, 16.0), (90.0, 16.0)):
        assert placed(cameras, np.concatenate([VASE, wall(radius, 30)])).extent == side


__all__ = ["photos", "solved", "somewhere"]

COMMANDS = {"inspect": (), "capture": ("--out", "out"), "train": ("--out", "out")}
TOLD = [
    "3 images such as",
    "OpenEXR (.exr), which is not supported: convert to PNG or JPEG in sRGB",
]


def write_exr(folder, count=3):
    names = [f"images/{index:03d}.exr" for index in range(count)]
    frame = {index: {"file_path": name} for index, name in enumerate(names)}
    path = write_transforms(folder, count, absent=range(count), frame=frame)
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(b"v/1\x01 not decoded")
    return path


@pytest.mark.parametrize("command", ["inspect", "train"])
def test_a_scene_of_them_is_refused(tmp_path, capsys, command):
    write_exr(tmp_path / "scene")
    refused(capsys, tmp_path, command, tmp_path / "scene", *COMMANDS[command], names=TOLD)
