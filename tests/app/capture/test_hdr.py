"""Frames of HDR videos have the colors of the scene."""

import subprocess

import numpy as np
import pytest
from imageio_ffmpeg import get_ffmpeg_exe
from PIL import Image

from nerfmac.app.capture import video
from nerfmac.app.capture.video import full_frames, report_colors

SIZE = 64, 48


@pytest.fixture(scope="module")
def colors():
    """Patches of muted colors, uint8 (h, w, 3)."""
    patches = np.random.default_rng(4).integers(30, 190, (4, 6, 3), np.uint8)
    return np.asarray(Image.fromarray(patches).resize(SIZE, Image.Resampling.NEAREST))


def write_video(path, colors, transfer):
    """Write two frames, 10 bit BT.2020 with this transfer function, at 203 cd/m2 for white."""
    linear = "zscale=min=gbr:rin=full:pin=bt709:tin=iec61966-2-1:t=linear:m=gbr:p=bt709:npl=203"
    coded = f"zscale=p=bt2020:t={transfer}:m=2020_ncl:r=limited:npl=203"
    to_hdr = f"format=gbrp,{linear},format=gbrpf32le,{coded},format=yuv444p10le"
    source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", "{}x{}".format(*SIZE), "-i", "-"]
    codec = ["-c:v", "ffv1", "-color_trc", transfer, "-color_primaries", "bt2020"]
    command = [get_ffmpeg_exe(), "-v", "error", *source, "-vf", to_hdr, *codec]
    command += ["-colorspace", "bt2020nc", "-color_range", "tv", path]
    subprocess.run(command, input=colors.tobytes() * 2, check=True)


def chroma(image):
    image = np.asarray(image, float)
    return (image.max(axis=-1) - image.min(axis=-1)).mean()


@pytest.mark.parametrize(("transfer", "name"), [("arib-std-b67", "HLG"), ("smpte2084", "PQ")])
def test_an_hdr_video_is_tone_mapped_to_srgb(tmp_path, colors, transfer, name, caplog):
    caplog.set_level("INFO", "nerfmac")
    path = tmp_path / "clip.mkv"
    write_video(path, colors, transfer)
    report_colors(path)
    first, second = full_frames(path, [0, 1], 640)
    np.testing.assert_array_equal(first, second)
    assert chroma(first) == pytest.approx(chroma(colors), rel=0.2)
    assert np.abs(first.astype(int) - colors).mean() < 12
    assert caplog.messages == [f"{path} is an HDR video ({name}); tone-mapping its frames to sRGB"]


def test_without_the_filters_it_is_said_that_colors_are_pale(tmp_path, colors, caplog, monkeypatch):
    path = tmp_path / "clip.mkv"
    write_video(path, colors, "arib-std-b67")
    program = tmp_path / "ffmpeg"
    stub = 'case "$1" in -filters) echo " .. scale " ;; *) exec {} "$@";; esac'
    program.write_text(f"#!/bin/sh\n{stub.format(get_ffmpeg_exe())}")
    program.chmod(0o755)
    monkeypatch.setattr(video, "ffmpeg", lambda: str(program))
    report_colors(path)
    (frame,) = full_frames(path, [0], 640)
    assert frame.shape == (48, 64, 3)
    (line,) = caplog.messages
    assert "will be pale" in line


def test_a_usual_video_is_left_as_it_is(tmp_path, colors, caplog):
    caplog.set_level("INFO", "nerfmac")
    path = tmp_path / "clip.mkv"
    source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", "{}x{}".format(*SIZE), "-i", "-"]
    command = [get_ffmpeg_exe(), "-v", "error", *source, "-pix_fmt", "gbrp", "-c:v", "ffv1", path]
    subprocess.run(command, input=colors.tobytes(), check=True)
    report_colors(path)
    (frame,) = full_frames(path, [0], 640)
    np.testing.assert_array_equal(frame, colors)
    assert caplog.messages == []
