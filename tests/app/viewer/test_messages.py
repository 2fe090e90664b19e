"""Effects of each message from the page, and rejected messages, in single slices of work."""

import re

import numpy as np
import pytest

from nerfmac.app.paths import spiral, tour
from nerfmac.app.run import Run, split_cameras
from nerfmac.rendering.evaluation import evaluate
from tests.scene_factory import HEIGHT, WIDTH


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ({"kind": "dance"}, "unknown message 'dance'"),
        ({}, "message: kind is missing"),
        ({"kind": "move", "pose": [1] * 3}, "message move: pose is .*; expected a list of 12"),
        ({"kind": "move", "pose": [2.0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0]},
         "expected a rotation and a position"),
        ({"kind": "set", "values": 3}, "message set: values is 3; expected an object"),
        ({"kind": "set", "values": {"fov": 400}}, "fov is 400"),
        ({"kind": "stand", "index": 99}, "photo 99 does not exist; the scene has 10"),
        ({"kind": "refine", "name": "poses", "on": True}, "trained for [0-9]+ steps"),
        ({"kind": "keyframe", "action": "go", "index": 0}, "keyframe 0 does not exist"),
        ({"kind": "load", "name": "nothing.json"}, "nothing.json"),
        ({"kind": "video", "name": "a.avi", "seconds": 1, "fps": 9, "width": 8, "height": 8},
         "file extension must be .mp4"),
        ({"kind": "video", "name": "a.mp4", "seconds": 1, "fps": 0, "width": 8, "height": 8},
         "fps is 0"),
    ],
)  # fmt: skip
def test_a_message_that_cannot_be_is_told_and_nothing_else_stops(page, message, words, caplog):
    page.open().settle()
    page.loop.post({"page": page.name, **message})
    page.settle()
    assert re.search(words, page.notice)
    assert not caplog.records, "a fault of the program, with a traceback"
    page.take("frame")
    page.turn(t=1).work()
    assert len(page.take("frame")) == 1


def test_who_stands_in_a_training_camera_sees_its_photo_and_how_close_it_comes(
    page, small_run, scene
):
    page.open(10 * WIDTH, 10 * HEIGHT).settle()
    page.say("stand", index=3, t=1).settle()
    ((photo, buffers),) = [each for each in page.messages if each[0]["kind"] == "photo"]
    assert (photo["index"], photo["width"], photo["height"]) == (3, WIDTH, HEIGHT)
    assert len(buffers[0]) > 100
    last, rgb = page.images()[-1]
    assert last["compared"] == 3
    assert rgb.shape == (HEIGHT, WIDTH, 3)  # no finer than the photo
    want = list(evaluate(small_run.renderer, scene.views("train")))[3]
    assert last["psnr"] == pytest.approx(want.psnr, abs=0.05)  # eight bits
    page.take("frame")
    page.turn(t=2).work()
    (frame,) = page.take("frame")
    assert frame["compared"] is None
    assert frame["psnr"] is None


def test_a_double_click_makes_what_is_seen_there_the_center(page):
    page.open(96, 64).settle()
    shown = page.screen.shown
    row, column = np.unravel_index(np.argmax(shown.drawn.depth > 0), (64, 96))
    page.say("look", x=(column + 0.5) / 96, y=(row + 0.5) / 64, t=1).settle()
    center = page.kernel.view.center
    assert not np.allclose(center, page.session.scene.home.center)
    lens, pose = shown.job.camera.lens, shown.job.camera.pose
    local = pose[:, :3].T @ (center - pose[:, 3])
    x, y = lens.fl_x * local[0] / -local[2] + lens.cx, lens.cy - lens.fl_y * local[1] / -local[2]
    assert (x, y) == pytest.approx((column + 0.5, row + 0.5), abs=0.01)
    near = shown.drawn.depth[max(row - 2, 0) : row + 3, max(column - 2, 0) : column + 3]
    assert np.linalg.norm(local) == pytest.approx(np.median(near[near > 0]), rel=1e-4)
    shown.drawn.depth[:] = 0.0
    away = np.linalg.norm(shown.point_at(0.3, 0.6, otherwise=1.7) - pose[:, 3])
    assert away == pytest.approx(1.7, rel=1e-5)


def test_keyframes_make_a_path_that_is_scrubbed_saved_and_loaded(page, tmp_path):
    page.open().settle()
    first = page.kernel.view
    page.say("keyframe", action="add")
    page.turn(0.2, 0.1, t=1, moving=False)
    page.say("keyframe", action="add").settle()
    second = page.kernel.view
    page.say("scrub", at=0.0, t=2).settle()
    assert np.allclose(page.kernel.view.pose, first.pose, atol=1e-6)
    page.say("scrub", at=1.0, t=3).settle()
    assert np.allclose(page.kernel.view.pose, second.pose, atol=1e-6)
    name = str(tmp_path / "path.json")
    page.say("save", name=name)
    page.say("clear").settle()
    assert page.session.jobs.path_editor.status()["keyframes"] == []
    page.say("load", name=name)
    page.say("keyframe", action="go", index=0).settle()
    assert np.allclose(page.kernel.view.pose, first.pose, atol=1e-6)
    status = page.session.jobs.path_editor.status()
    assert [each["fov"] for each in status["keyframes"]] == pytest.approx(
        2 * [np.degrees(first.fov)]
    )
    assert len(status["path"]) > 10


@pytest.mark.parametrize("name", ["spiral", "train", "test"])
def test_a_move_is_followed_closely_and_the_keyframes_stay(page, name):
    page.open().settle()
    page.say("keyframe", action="add")
    page.say("follow", name=name).settle()
    editor = page.session.jobs.path_editor
    status = editor.status()
    assert (len(status["keyframes"]), status["move"], len(status["path"])) == (1, name, 96)
    scene = page.session.run.scene
    given = split_cameras(page.session.run, "test") if name == "test" else scene.cameras("train")
    move = spiral if name == "spiral" else tour
    frames = 16 * 5 if name == "spiral" else 15 * 5 + 1
    want = np.stack([each.pose for each in move(given, up=scene.up, frames=frames)])
    got = editor.followed.polyline(16 * 40)
    away = np.linalg.norm(got[:, None] - want[None, :, :, 3], axis=2).min(axis=1)
    assert away.max() < 0.15
    assert editor.followed.closed == (name == "spiral")
    page.say("scrub", at=0.5).settle()
    assert np.allclose(page.kernel.view.pose, editor.followed.at(0.5).pose, atol=1e-5)
    job = editor.begin_video("move.mp4", 1.0, 4.0, (8, 6), lambda camera: None)
    assert np.allclose(job._cameras[0].pose, editor.followed.cameras(4, (8, 6))[0].pose)
    page.say("follow", name="keyframes").settle()
    assert (editor.status()["move"], editor.status()["path"]) == ("keyframes", [])
    page.say("follow", name=name)
    page.say("keyframe", action="add").settle()
    assert (editor.status()["move"], len(editor.status()["keyframes"])) == ("keyframes", 2)


def test_held_out_views_are_measured_when_the_page_asks(page):
    page.open().settle()
    (state, *_) = page.take("state")
    (last, *_) = page.session.run.history.points[::-1]
    shown = state["training"]
    assert (shown["psnr"], shown["loss"], state["held_out"]) == (last.psnr, last.loss, None)
    views = page.session.run.evaluate("test", progress=False)
    for _ in range(2):
        page.say("measure").settle()
        state = page.state()
        held_out = state["held_out"]
        assert held_out["psnr"] == pytest.approx(views.psnr, abs=1e-6)
        assert (held_out["step"], held_out["views"], held_out["of"]) == (120, 2, 2)
        assert state["measured"] is None


def test_the_page_writes_over_no_file(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("video.mp4", "path.json"):
        (tmp_path / name).write_bytes(b"kept")
    (tmp_path / "run").mkdir()
    page.open().settle()
    page.say("keyframe", action="add")
    page.say("save", name="path.json").settle()
    assert page.notice.endswith("path-2.json")
    page.say("save_run", name="run").settle()
    assert page.notice.endswith("run-2")
    assert Run.load(tmp_path / "run-2").state.step == 120
    page.say("video", name="video.mp4", seconds=0.1, fps=10, width=16, height=12).settle()
    assert page.session.jobs.path_editor.video.path == tmp_path / "video-2.mp4"
    page.session.jobs.path_editor.video.cancel()
    for name in ("video.mp4", "path.json"):
        assert (tmp_path / name).read_bytes() == b"kept"
    assert not list((tmp_path / "run").iterdir())


def test_a_folder_that_does_not_exist_is_created_for_a_path_and_a_video(page, tmp_path):
    page.open().settle()
    page.say("keyframe", action="add")
    page.say("save", name=str(tmp_path / "runs" / "path.json")).settle()
    assert (tmp_path / "runs" / "path.json").is_file()
    name = str(tmp_path / "videos" / "v.mp4")
    page.say("video", name=name, seconds=0.1, fps=10, width=16, height=12).settle()
    assert page.session.jobs.path_editor.video.result.result(60).is_file()
