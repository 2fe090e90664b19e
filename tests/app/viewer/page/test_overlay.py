"""Over the frame, with the frame's own camera: training cameras, the path, and the crop box."""

import numpy as np
import pytest

from tests.app.viewer.page.driver import LENS, POSE, STATE, VIEW, jpeg

CUBE = STATE["scene"]["cube"]
HANDLES = {(0, 1): [1.5, 1.0, 2.0], (1, 0): [0.5, -0.5, 2.0], (1, 1): [0.5, 2.5, 2.0],
           (2, 0): [0.5, 1.0, 0.5], (2, 1): [0.5, 1.0, 3.5]}  # fmt: skip


def place_of(point, pose=POSE):
    """The position of a scene point in the image of 640 x 480."""
    matrix = np.reshape(pose, (3, 4))
    right, up, back = matrix[:, :3].T @ (np.array(point) - matrix[:, 3])
    return (
        640 * (LENS[2] - LENS[0] * right / back), 480 * (LENS[3] + LENS[1] * up / back),
    )  # fmt: skip


def pose_at(*place):
    """POSE, standing elsewhere."""
    matrix = np.reshape(POSE, (3, 4)).copy()
    matrix[:, 3] = place
    return matrix.ravel().tolist()


@pytest.fixture
def cameras(shown):
    """A view with three cameras; the second is behind the viewer, and the third is held out."""
    poses = [pose_at(1.0, 1.5, 2.25), pose_at(6.0, 1.0, 2.0), pose_at(0.0, 0.0, 1.5)]
    cameras = [
        {"pose": pose, "lens": LENS, "aspect": 4 / 3, "is_held_out": index == 2}
        for index, pose in enumerate(poses)
    ]
    names = ["train/first.png", "train/second.png", "train/third.png"]
    shown.say({"kind": "cameras", "cameras": cameras, "names": names, "sizes": []})
    shown.button("View panel").click()
    shown.control("Cameras").click()
    shown.button("View panel").click()
    return shown


def is_drawn(view, x, y):
    """Whether the overlay has drawn anything within two pixels of a place."""
    return any(
        view.pixel(round(x) + dx, round(y) + dy, "overlay")[3] for dx in (-2, 0, 2)
        for dy in (-2, 0, 2)
    )  # fmt: skip


def test_cameras_are_drawn_where_they_stand_as_the_frame_sees_them(cameras):
    place = place_of([1.0, 1.5, 2.25])
    assert place == pytest.approx((348, 234))
    assert is_drawn(cameras, *place)
    other = pose_at(5.5, 2.0, 1.5)
    cameras.show(2, pose=other)
    assert not is_drawn(cameras, *place)
    assert is_drawn(cameras, *place_of([1.0, 1.5, 2.25], other))


def test_a_camera_under_the_pointer_is_named_and_only_a_click_on_it_stands_in_it(cameras):
    cameras.page.mouse.click(30, 400)
    x, y = place_of([1.0, 1.5, 2.25])
    cameras.drag((x - 50, y), (x, y))
    assert cameras.sent("stand") == []
    cameras.show(2)
    cameras.page.mouse.move(*place_of([0.0, 0.0, 1.5]))
    assert cameras.page.get_by_role("tooltip").inner_text() == "train/third.png · held out"
    cameras.page.mouse.click(*place_of([0.0, 0.0, 1.5]))
    assert [each["index"] for each in cameras.sent("stand")] == [2]
    cameras.page.mouse.move(20, 20)
    assert not cameras.page.get_by_role("tooltip").is_visible()


def test_a_legend_explains_the_colors_of_trained_and_held_out_cameras(cameras):
    def color(*place):
        x, y = (round(value) for value in place)
        near = cameras.run(
            "([x, y]) => [...pixelsOf('overlay', x - 5, y - 5, 11, 11).data]", [x, y]
        )
        lit = [near[at : at + 3] for at in range(0, len(near), 4) if near[at + 3] > 120]
        return max(lit, key=lambda rgb: max(rgb) - min(rgb))

    red, _, blue = color(*place_of([1.0, 1.5, 2.25]))
    assert blue > 1.3 * red, "trained"
    red, _, blue = color(*place_of([0.0, 0.0, 1.5]))
    assert red > 1.3 * blue, "held out"
    legend = cameras.page.locator(".nerfmac-legend")
    assert legend.locator("span").all_inner_texts() == [
        "training photos",
        "held-out photos, not used for training",
    ]
    assert legend.is_visible()
    cameras.button("View panel").click()
    cameras.control("Cameras").click()
    cameras.settle()
    assert not legend.is_visible()


def test_switching_cameras_on_moves_away_until_one_is_on_the_image(shown):
    """The camera is in front of the view, but beside the image."""
    cameras = [{"pose": pose_at(3.0, 4.0, 2.0), "lens": LENS, "aspect": 1.0, "is_held_out": False}]
    shown.say({"kind": "cameras", "cameras": cameras, "names": ["a"], "sizes": []})
    shown.button("View panel").click()
    shown.control("Cameras").click()
    shown.settle()
    pose, center = shown.sent("move")[-1]["pose"], VIEW["center"]
    away = np.linalg.norm(np.array(pose[3::4]) - center)
    assert away > 1.2 * np.linalg.norm(np.array(POSE[3::4]) - center)
    x, y = place_of([3.0, 4.0, 2.0], pose)
    assert 0 < x < 640
    assert 0 < y < 480
    count = len(shown.sent("move"))
    shown.control("Cameras").click()
    shown.show(2, pose=pose)
    shown.control("Cameras").click()
    shown.settle()
    assert len(shown.sent("move")) == count, "it is on the image already"


def test_photos_lie_in_the_frusta_and_under_the_pointer(cameras):
    assert len(cameras.run("sent.filter(({ kind }) => kind === 'thumbnails')")) == 1
    photos = [jpeg([(20, 200, 40)]), jpeg([(10, 10, 10)])]
    cameras.say({"kind": "thumbnails", "first": 0}, *photos)
    cameras.say({"kind": "thumbnails", "first": 2}, jpeg([(10, 10, 10)]))
    middle = place_of([0.9, 1.55, 2.255])  # on the photo, between its lines
    x, y = (round(each) for each in middle)
    cameras.page.wait_for_function(
        """([x, y]) => {
          const near = [...pixelsOf('overlay', x - 9, y - 9, 19, 19).data];
          return near.some((r, at) => at % 4 === 0 && near[at + 1] > 2 * near[at + 2]
            && near[at + 3] > 120);
        }""",
        arg=[x, y],
        timeout=20_000,
    )
    cameras.page.mouse.move(*middle)
    cameras.settle()
    tooltip = cameras.page.get_by_role("tooltip")
    assert tooltip.inner_text() == "train/first.png"
    preview = tooltip.locator("canvas")
    assert preview.is_visible()
    assert preview.evaluate("({ width, height }) => [width, height]") == [64, 48]
    cameras.page.mouse.click(*middle)
    assert cameras.sent("stand")[0]["index"] == 0


@pytest.fixture
def cropped(shown):
    """A view with the crop box on, as the kernel has confirmed: else it goes after a second."""
    shown.button("View panel").click()
    shown.control("Crop box").click()
    shown.button("View panel").click()
    shown.settle()
    shown.state(settings={"crop": CUBE})
    shown.settle()
    return shown


def crops(view):
    return [each["values"]["crop"] for each in view.sent("set")]


@pytest.mark.parametrize(("axis", "side"), [(1, 0), (1, 1), (2, 0), (2, 1)])
def test_a_handle_moves_its_face_alone_to_where_it_is_dragged(cropped, axis, side):
    target = list(HANDLES[axis, side])
    target[axis] += 0.4 if side == 0 else -0.4
    cropped.forget()
    cropped.drag(place_of(HANDLES[axis, side]), place_of(target))
    want = [list(corner) for corner in CUBE]
    want[side][axis] = target[axis]
    assert np.array(crops(cropped)[-1]) == pytest.approx(np.array(want), abs=0.02)
    assert len(crops(cropped)) > 1, "it is not live"
    assert cropped.sent("move") == []


def test_a_face_never_passes_the_opposite_one_nor_leaves_the_cube(cropped):
    start = place_of(HANDLES[1, 1])
    cropped.drag(start, (5, start[1]))
    box = crops(cropped)[-1]
    assert CUBE[0][1] < box[1][1] < CUBE[0][1] + 0.1
    cropped.state(settings={"crop": box})
    cropped.drag(place_of([0.5, box[1][1], 2.0]), (630, start[1]))
    assert crops(cropped)[-1] == CUBE


def test_lines_that_pass_behind_the_viewer_are_cut_not_flipped(cropped):
    """From inside the box, all edges are outside the image, and one handle is straight ahead."""
    inside = pose_at(1.0, 1.0, 2.0)
    cropped.show(2, pose=inside)
    drawn = cropped.run(
        """() => {
          const { data } = pixelsOf("overlay", 0, 0, 640, 480);
          const numbers = [...Array(640 * 480).keys()].filter((number) => data[4 * number + 3]);
          return numbers.map((number) => [number % 640, Math.floor(number / 640)]);
        }"""
    )
    away = np.linalg.norm(np.array(drawn) - place_of([-0.5, 1.0, 2.0], inside), axis=1)
    assert away.min() < 1.0
    assert away.max() < 12.0
