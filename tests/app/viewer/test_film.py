"""The camera path as a video: its length, sizes, and estimate, and frusta that fit the subject."""

import numpy as np
import pytest


def add_keyframes(page, count=3):
    page.open().settle()
    for _ in range(count):
        page.turn(moving=False)
        page.settle()
        page.say("keyframe", action="add")
        page.settle()


def test_a_keyframe_may_have_a_time_and_the_length_follows(page):
    editor = page.session.jobs.path_editor
    page.open().settle()
    assert (editor.status()["seconds"], editor.status()["closed"]) == (5.0, True), "the orbit"
    add_keyframes(page)
    status = editor.status()
    assert (status["seconds"], status["closed"]) == (5.0, False)
    assert [each["seconds"] for each in status["keyframes"]] == [None] * 3
    for index, seconds in ((1, 2.0), (2, 6.0)):
        page.say("keyframe", action="time", index=index, seconds=seconds)
    page.say("keyframe", action="replace", index=2)
    page.settle()
    status = editor.status()
    assert status["seconds"] == pytest.approx(8.0)
    assert [each["seconds"] for each in status["keyframes"]] == [None, 2.0, 6.0], "kept"
    assert [each["time"] for each in status["keyframes"]] == pytest.approx([0.0, 0.25, 1.0])
    page.say("keyframe", action="time", index=1, seconds=None)
    page.say("keyframe", action="time", index=2, seconds=-1)
    page.settle()
    assert "seconds" in page.notice
    assert [each["seconds"] for each in editor.status()["keyframes"]] == [None, None, 6.0]
    page.say("follow", name="spiral")
    page.settle()
    assert (editor.status()["seconds"], editor.status()["closed"]) == (10.0, True)


def test_what_is_played_is_what_is_rendered(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page.open().settle()
    video = page.session.jobs.begin_video("video.mp4", (1.0, 8.0, (16, 12)), *page.session.images())
    for at in (0.0, 0.5):
        page.say("scrub", at=at)
        page.settle()
        camera = video._cameras[round(8 * at)]
        assert np.allclose(page.kernel.view.pose, camera.pose, atol=1e-5), "the orbit"
