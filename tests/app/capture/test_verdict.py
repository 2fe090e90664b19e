"""Wrong reconstructions are refused, and reconstructions that are nearly wrong are not."""

import numpy as np
import pytest

from nerfmac.app.capture.findings import Evidence
from nerfmac.app.capture.two_views import CapturedImage, turned_share
from nerfmac.app.capture.verdict import judge
from tests.app.capture.reconstructions import (
    FOCAL,
    HEIGHT,
    WIDTH,
    around_a_can,
    folded,
    look_at,
    matches_of,
    model_of,
    project,
)


def verdict(captured, model, *, is_ordered=True, reach=10, focals=None):
    count = len(captured.names)
    pairs = [(i, j) for i in range(count) for j in range(i + 1, min(i + 1 + reach, count))]
    return judge(
        Evidence(images_of(captured, focals), matches_of(captured, pairs), model, is_ordered)
    )


def images_of(captured, focals=None):
    known = focals or {}
    return [CapturedImage(name, WIDTH, HEIGHT, known.get(name, 0.0)) for name in captured.names]


def kinds(*arguments, **options):
    return [finding.kind for finding in verdict(*arguments, **options).findings]


@pytest.mark.parametrize("is_ordered", [True, False])
@pytest.mark.parametrize("count", [20, 40])
def test_a_correct_reconstruction_is_accepted_although_the_can_has_two_similar_sides(
    count, is_ordered
):
    captured = around_a_can(count, alike=is_ordered)
    assert kinds(captured, model_of(captured), is_ordered=is_ordered, reach=count) == []


@pytest.mark.parametrize("count", [20, 40])
def test_images_in_order_reveal_a_folded_reconstruction(count):
    captured = around_a_can(count)
    poses, middle = folded(captured), count // 2
    found = verdict(captured, model_of(captured, poses, groups=[0] * middle + [1] * middle))
    assert found.is_refused
    assert found.findings[0].kind == "order"
    assert f"{middle - 1:02}.png and {middle:02}.png" in found.findings[0].evidence


def test_a_single_wrong_camera_is_reported_and_the_others_are_kept():
    captured = around_a_can(30, background=600, alike=False)
    poses = list(captured.poses)
    half = np.diag([-1.0, -1.0, 1.0])
    poses[7] = np.column_stack([poses[7][:, :3] @ half, poses[7][:, 3]])
    (finding,) = verdict(
        captured, model_of(captured, poses, groups=[*[0] * 7, 1, *[0] * 22])
    ).findings
    assert finding.kind == "camera"
    assert finding.evidence.startswith("the camera of 07.png contradicts 4 of 57 pairs")
    assert not finding.is_refused


def test_similar_sides_are_reported_if_the_images_are_not_in_order():
    captured = around_a_can(24)
    shuffled = np.random.default_rng(0).permutation(24)
    mixed = captured._replace(
        poses=[captured.poses[i] for i in shuffled],
        features=[captured.features[i] for i in shuffled],
    )
    found = verdict(mixed, model_of(mixed), is_ordered=False, reach=24)
    assert [finding.kind for finding in found.findings] == ["alike"]
    assert not found.is_refused


def test_a_missing_image_between_opposing_cameras_is_refused_and_a_small_step_is_not():
    captured = around_a_can(12, background=0)
    poses, kept = folded(captured), [0, 1, 2, 3, 4, 7, 8, 9, 10, 11]
    model = model_of(captured, poses, kept, [0] * 6 + [1] * 6)
    assert kinds(captured, model, reach=1) == ["jump"]
    near = around_a_can(40)
    assert kinds(near, model_of(near, kept=[i for i in range(40) if i not in (19, 20)])) == []


def test_photos_may_be_taken_from_two_separate_sides():
    ring = around_a_can(24, background=900, alike=False)
    chosen = [*range(6), *range(12, 18)]
    captured = ring._replace(
        names=ring.names[:12],
        poses=[ring.poses[i] for i in chosen],
        features=[ring.features[i] for i in chosen],
    )
    assert kinds(captured, model_of(captured, groups=[0] * 6 + [1] * 6), reach=3) == []


def turning(step):
    """Return images of a camera that turns by 60 degrees in total and moves `step` each time."""
    random = np.random.default_rng(2)
    direction = random.normal(size=(900, 3)) * [1, 1, 0.3]
    positions = random.uniform(3, 8, (900, 1)) * direction
    positions /= np.linalg.norm(direction, axis=1, keepdims=True)
    captured = around_a_can(14)
    poses, features = [], []
    for number, angle in enumerate(np.linspace(0, np.radians(60), 14)):
        eye = np.array([step * number, 0.0, 0.0])
        poses.append(look_at(eye, eye + [np.cos(angle), np.sin(angle), 0.0]))
        pixels, depth = project(poses[-1], positions)
        inside = (depth > 0.1) & ((pixels > 0) & (pixels < [WIDTH, HEIGHT])).all(axis=1)
        noisy = pixels + random.normal(0, 0.3, pixels.shape)
        features.append({int(point): noisy[point] for point in np.flatnonzero(inside)})
    return captured._replace(poses=poses, positions=positions, features=features, twin={})


def test_a_camera_that_turns_in_place_is_refused_and_one_that_walks_is_not():
    lenses = {image.name: image.lens(FOCAL / WIDTH) for image in images_of(around_a_can(14))}
    assert turned_share(matches_of(turning(0.0)), lenses) > 0.95
    assert turned_share(matches_of(turning(0.1)), lenses) < 0.3
    few = {pair: some[:40] for pair, some in matches_of(turning(0.0)).items()}
    assert turned_share(few, lenses) == 0.0
    in_place = turning(0.0)
    jittered = [pose + np.eye(3, 4, 3) * 1e-3 * i for i, pose in enumerate(in_place.poses)]
    assert kinds(in_place, model_of(in_place, jittered))[0] == "turned"
    assert kinds(turning(0.1), model_of(turning(0.1))) == []


def test_different_backgrounds_of_nearby_cameras_are_refused():
    captured = around_a_can(24, background=900)
    poses = folded(captured)
    # Structure from motion merges the points of both sides of the can, but not the background.
    merged = captured._replace(
        features=[
            {
                captured.twin[p] if i >= 12 and p in captured.twin else p: pixel
                for p, pixel in s.items()
            }
            for i, s in enumerate(captured.features)
        ],
        positions=captured.positions,
    )
    model = model_of(captured, poses, groups=[0] * 12 + [1] * 12)
    shared = {}
    for image, features in zip(model.images, merged.features, strict=True):
        for number, point in zip(image.points, features, strict=True):
            if point < 300:
                shared.setdefault(point, int(number))
    images = [
        image._replace(
            points=np.array(
                [shared[p] if p < 300 else n for n, p in zip(image.points, features, strict=True)]
            )
        )
        for image, features in zip(model.images, merged.features, strict=True)
    ]
    found = verdict(captured, model._replace(images=images), is_ordered=False, reach=24)
    assert "background" in [finding.kind for finding in found.findings]
    assert found.is_refused


@pytest.mark.parametrize(("times", "expected"), [(40.0, ["far"]), (8.0, [])])
def test_cameras_that_are_far_away_are_reported(times, expected):
    captured = around_a_can(24)
    poses = list(captured.poses)
    poses[5] = np.column_stack([poses[5][:, :3], poses[5][:, 3] * times])
    found = verdict(captured, model_of(captured, poses), reach=0)
    assert [finding.kind for finding in found.findings] == expected
    assert not found.is_refused


@pytest.mark.parametrize(("times", "expected"), [(1.3, ["focal length"]), (1.1, [])])
def test_a_focal_length_that_contradicts_exif_is_reported(times, expected):
    captured = around_a_can(20)
    focals = dict.fromkeys(captured.names, FOCAL * times)
    assert kinds(captured, model_of(captured), focals=focals) == expected


@pytest.mark.parametrize(("times", "expected"), [(4 / 3, ["squeezed"]), (1.02, [])])
def test_images_with_two_focal_lengths_are_squeezed(times, expected):
    captured = around_a_can(20)
    model = model_of(captured)
    model.cameras[1].parameters["fl_y"] *= times
    assert kinds(captured, model, reach=0) == expected


@pytest.mark.parametrize("sides", [2, 4])
@pytest.mark.parametrize("count", [24, 48])
def test_cameras_on_the_wrong_side_of_an_object_are_refused(count, sides):
    captured = around_a_can(count)
    at = np.radians(360 / sides)
    turn = np.array([[np.cos(at), -np.sin(at), 0], [np.sin(at), np.cos(at), 0], [0, 0, 1.0]])
    middle = count // 2
    poses = captured.poses[:middle] + [
        np.column_stack([pose[:, :3] @ turn, pose[:, 3]]) for pose in captured.poses[middle:]
    ]
    model = model_of(captured, poses, groups=[0] * middle + [1] * middle)
    found = verdict(captured, model)
    assert next(finding.kind for finding in found.findings if finding.is_refused) == "order"
