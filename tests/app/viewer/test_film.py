"""The camera path as a video: its length, sizes, and estimate, and frusta that fit the subject."""

import numpy as np


def test_what_is_played_is_what_is_rendered(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page.open().settle()
    video = page.session.jobs.begin_video("video.mp4", (1.0, 8.0, (16, 12)), *page.session.images())
    for at in (0.0, 0.5):
        page.say("scrub", at=at)
        page.settle()
        camera = video._cameras[round(8 * at)]
        assert np.allclose(page.kernel.view.pose, camera.pose, atol=1e-5), "the orbit"
