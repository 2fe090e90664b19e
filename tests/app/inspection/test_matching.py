"""Wrong poses are found by matches, and poses that are nearly right are not reported."""

import numpy as np
import pytest

from nerfmac import Camera
from nerfmac.app.inspection.matching import compare_poses
from nerfmac.app.inspection.pose_readings import Intrinsics
from tests.app.capture.reconstructions import around_a_can, matches_of, model_of
from tests.conftest import daily_but

COUNT = 16
NAMES = {f"{number:02}.png": f"photos/{number:02}.png" for number in range(COUNT)}


@pytest.fixture(scope="module")
def captured():
    """Return matches of sixteen images on an arc around a can, and their cameras."""
    images = around_a_can(COUNT, background=900, arc=200.0, alike=False, uneven=0.2)
    model = model_of(images)
    lens = model.cameras[1].lens("camera")
    cameras = {image.name: Camera(lens, image.camera_to_file) for image in model.images}
    return matches_of(images), cameras


def posed(cameras, change):
    """Return cameras with changed poses."""
    poses = {name: camera.pose.astype(float) for name, camera in cameras.items()}
    return {name: Camera(cameras[name].lens, change(pose)) for name, pose in poses.items()}


def findings(captured, cameras):
    return compare_poses(captured[0], cameras, NAMES)[1]


def test_true_poses_agree(captured):
    facts, findings = compare_poses(*captured, NAMES)
    assert findings == []
    pairs = len(captured[0])
    assert facts[0].startswith(f"matches    {pairs} of {pairs} pairs of images agree")


MIRROR, AXES = np.diag([1.0, -1.0, 1.0]), np.diag([1.0, -1.0, -1.0])


READINGS = [
    (lambda p: p * [1, -1, -1, 1], "if the camera axes are those of OpenCV"),
    (lambda p: np.column_stack([MIRROR @ p[:, :3] @ MIRROR, MIRROR @ p[:, 3]]), "mirrored"),
    (
        lambda p: np.column_stack([p[:, :3], MIRROR @ p[:, 3]]),
        "if the positions are (x, -y, z)",
    ),
    (
        lambda p: np.column_stack([p[:, :3].T, -p[:, :3].T @ p[:, 3]]),
        "if the matrices map world to camera: ",
    ),
    (
        lambda p: np.column_stack([AXES @ p[:, :3].T, -AXES @ p[:, :3].T @ p[:, 3]]),
        "the matrices map world to camera and the camera axes are those of OpenCV",
    ),
    (lambda p: np.column_stack([p[:, :3].T, p[:, 3]]), "the rotations are transposed"),
    (
        lambda p: np.column_stack([p[:, :3], -p[:, :3].T @ p[:, 3]]),
        "the positions are translations of world-to-camera matrices",
    ),
    (lambda p: p[:, [1, 0, 2, 3]] * [1, -1, 1, 1], "are the camera axes -y, x, z"),
]


@pytest.mark.parametrize("case", daily_but(range(len(READINGS)), 0, 4))
def test_another_reading_of_all_poses_is_named(captured, case):
    change, words = READINGS[case]
    (line,) = findings(captured, posed(captured[1], change))
    assert line.startswith("the camera poses contradict the images")
    assert words in line


def reordered(cameras, sources):
    order = sorted(cameras)
    return {
        name: Camera(cameras[name].lens, cameras[source].pose)
        for name, source in zip(order, sources, strict=True)
    }


ORDERS = [
    (lambda names: names[1:] + names[:1], "the pose of the previous image"),
    (lambda names: names[-1:] + names[:-1], "the pose of the next image"),
    (lambda names: names[::-1], "in the reverse order"),
    (lambda names: names[::2] + names[1::2], "no other reading of the poses fits"),
]


@pytest.mark.parametrize("case", daily_but(range(len(ORDERS)), 1))
def test_poses_in_another_order_than_the_images_are_reported(captured, case):
    order, words = ORDERS[case]
    (line,) = findings(captured, reordered(captured[1], order(sorted(captured[1]))))
    assert words in line


LENSES = [
    ({"focal": 1.1}, "the focal length 700 instead of 770"),
    ({"focal": 0.9}, "the focal length 700 instead of 630"),
    ({"focal": 1.5}, "the focal length 700 instead of 1050"),
    ({"k1": 0.2}, "the distortion k1 = "),
    ({"k1": -0.2}, "the distortion k1 = "),
    ({"x": 0.08}, "the principal point ("),
    ({"focal": 1.02}, ""),
    ({"k1": 0.01}, ""),
    ({"x": 0.004}, ""),
]


@pytest.mark.parametrize("case", daily_but(range(len(LENSES)), 0, 4, 5, 6))
def test_wrong_intrinsics_are_reported_with_their_cause(captured, case):
    change, words = LENSES[case]
    wrong = Intrinsics(**change)
    cameras = {
        name: Camera(wrong.applied(camera.lens), camera.pose)
        for name, camera in captured[1].items()
    }
    found = findings(captured, cameras)
    assert len(found) == bool(words)
    if words:
        assert found[0].startswith("the camera intrinsics are probably wrong: with ")
        told = found[0].split(": with ")[1].split(", the median")[0]
        kind = words.split(" 700")[0]
        assert told.startswith(kind)
        assert " and " not in told, "one cause"
        if "focal" in change:
            assert float(told.split("length ")[1].split()[0]) == pytest.approx(700, rel=0.03)


INEXACT = [(0.1, 0.0, 0), (1.0, 0.01, 1)]


@pytest.mark.parametrize(("degrees", "shift", "is_reported"), INEXACT)
def test_inexact_poses_are_not_called_wrong(captured, degrees, shift, is_reported):
    random = np.random.default_rng(3)
    mean = np.mean([np.linalg.norm(c.pose[:, 3]) for c in captured[1].values()])

    def drifted(pose):
        turned = turn_about(np.radians(degrees) * random.normal(size=3) / 3**0.5) @ pose[:, :3]
        return np.column_stack([turned, pose[:, 3] + shift * mean * random.normal(size=3) / 3**0.5])

    found = findings(captured, posed(captured[1], drifted))
    assert len(found) == is_reported
    if is_reported:
        assert found[0].startswith("the camera poses are inexact: the median epipolar error is ")
        assert "train with --refine.poses" in found[0]


def turn_about(vector):
    """Return the rotation matrix of an axis times an angle."""
    angle = max(np.linalg.norm(vector), 1e-12)
    x, y, z = np.asarray(vector) / angle
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross


def test_two_exchanged_images_are_named(captured):
    names = sorted(captured[1])
    names[3], names[9] = names[9], names[3]
    (line,) = findings(captured, reordered(captured[1], names))
    assert "are exchanged" in line
    assert "photos/03.png" in line
    assert "photos/09.png" in line


@pytest.mark.parametrize(
    ("axis", "degrees", "is_reported"), [(0, 5.0, True), (2, 5.0, True), (1, 0.1, False)]
)
def test_a_camera_that_is_turned_is_named(captured, axis, degrees, is_reported):
    camera = captured[1]["05.png"]
    turned = turn_about(np.radians(degrees) * np.eye(3)[axis]) @ camera.pose[:, :3]
    pose = np.column_stack([turned, camera.pose[:, 3]])
    found = findings(captured, {**captured[1], "05.png": Camera(camera.lens, pose)})
    assert len(found) == is_reported
    if is_reported:
        assert found[0].startswith("the pose of photos/05.png is wrong")


def test_a_camera_at_another_place_is_named(captured):
    camera = captured[1]["05.png"]
    pose = camera.pose + np.eye(3, 4, 3) * 0.5
    (line,) = findings(captured, {**captured[1], "05.png": Camera(camera.lens, pose)})
    assert line.startswith("the pose of photos/05.png is wrong")


def test_an_image_between_wrong_cameras_is_not_wrong(captured):
    matches = {
        pair: some for pair, some in captured[0].items() if int(pair[1][:2]) - int(pair[0][:2]) <= 2
    }
    cameras = dict(captured[1])
    for number, axis in ((2, 0), (3, 1), (5, 2)):
        camera = cameras[f"{number:02}.png"]
        turn = turn_about(np.radians(20.0) * np.eye(3)[axis])
        pose = np.column_stack([turn @ camera.pose[:, :3], camera.pose[:, 3]])
        cameras[f"{number:02}.png"] = Camera(camera.lens, pose)
    lines = compare_poses(matches, cameras, NAMES)[1]
    assert sorted(line.split()[3] for line in lines) == [f"photos/0{n}.png" for n in (2, 3, 5)]
