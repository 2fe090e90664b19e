"""A video of any length needs the memory of a few frames."""

import sys
import tracemalloc

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.app.run import Run
from nerfmac.app.video import render_video, write_video
from tests.scene_factory import CONFIG

pytestmark = pytest.mark.usefixtures("on_the_cpu")


@pytest.mark.slow
def test_memory_does_not_grow_with_the_frames(scene, tmp_path, monkeypatch):
    run = Run.begin(scene, CONFIG)
    cameras = run.orbit(120, (32, 24))
    held = {}

    def watched(path, frames, *options):
        def counted():
            for index, frame in enumerate(frames, 1):
                yield frame
                if index in (30, 120):
                    held[index] = tracemalloc.get_traced_memory()[0], mx.get_active_memory()

        write_video(path, counted(), *options)

    monkeypatch.setattr(sys.modules[render_video.__module__], "write_video", watched)
    tracemalloc.start()
    try:
        render_video(run, cameras, tmp_path / "video.mp4", progress=False)
    finally:
        tracemalloc.stop()
    host, device = np.subtract(held[120], held[30])
    frame = 32 * 24 * 3
    assert host < 30 * frame, "frames are kept on the host"
    assert device < 30 * frame, "frames are kept on the device"
