"""A focal length without EXIF is chosen from trials; frames of HDR videos have right colors."""

import subprocess

import numpy as np
import pytest
from imageio_ffmpeg import get_ffmpeg_exe
from PIL import Image

from nerfmac.app.capture.focal import (
    TYPICAL,
    Trial,
    UnknownFocalError,
    check_focal,
    choose_trial,
    is_settled,
)
from nerfmac.app.capture.video import full_frames, open_video, report_conversions

RIGHT = Trial(1.2, 1.14, 0.0, 0.0, 1.0, error=0.34, observations=4000, images=16)
"""Result for a guess near the focal length."""
SLID = Trial(0.85, 0.58, 0.0, 0.0, 1.0, error=0.93, observations=3900, images=16)
"""Result for a distant guess that led to a wrong scene."""


def test_the_usual_focal_length_is_assumed_if_trials_that_contradict_each_other_fit_equally_well():
    other = RIGHT._replace(guess=0.85, focal=0.85, error=0.35)
    assumed = choose_trial([RIGHT, other])
    assert (assumed.focal, assumed.doubt) == (
        TYPICAL,
        "0.85 and 1.14 of the longer side fit equally well",
    )
    assert f"{assumed.doubt}; 0.85 is assumed" in assumed.finding.evidence
    assert not assumed.finding.is_refused
    assert choose_trial([RIGHT, other._replace(error=0.40)]) is RIGHT
    assert choose_trial([RIGHT, other._replace(focal=1.1)]) is RIGHT


def test_an_assumed_focal_length_that_does_not_fit_is_refused():
    assumed = choose_trial([RIGHT, RIGHT._replace(guess=0.85, focal=0.85, error=0.35)])
    check_focal(assumed, TYPICAL, 0.35)
    with pytest.raises(UnknownFocalError, match=r"0\.85 does not fit; pass .*--focal-35mm"):
        check_focal(assumed, TYPICAL, 0.9)


def test_guesses_are_tried_until_the_best_agrees_with_another():
    same = RIGHT._replace(guess=1.0, focal=1.13, error=0.36)
    assert not is_settled([])
    assert not is_settled([RIGHT])
    assert not is_settled([SLID, RIGHT])
    assert is_settled([SLID, RIGHT, same])
    slid_twice = [SLID, SLID._replace(guess=0.7)]
    assert not is_settled(slid_twice), "two that agree on an error as large are no proof"


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
    report_conversions(open_video(path))
    first, second = full_frames(open_video(path), [0, 1], 640)
    np.testing.assert_array_equal(first, second)
    assert chroma(first) == pytest.approx(chroma(colors), rel=0.2)
    assert np.abs(first.astype(int) - colors).mean() < 12
    assert caplog.messages == [f"{path} is an HDR video ({name}); tone-mapping its frames to sRGB"]


@pytest.mark.parametrize(
    ("primaries", "matrix", "name"),
    [("bt2020", "bt2020nc", "BT.2020"), ("smpte432", "bt709", "Display P3")],
)
def test_a_wide_gamut_video_is_converted_to_srgb(tmp_path, colors, primaries, matrix, name, caplog):
    caplog.set_level("INFO", "nerfmac")
    path = tmp_path / "clip.mkv"
    wide = f"p={primaries}:t=bt709:m={'2020_ncl' if primaries == 'bt2020' else '709'}:r=limited"
    coded = f"format=gbrp,zscale=min=gbr:rin=full:pin=bt709:tin=bt709:{wide},format=yuv444p10le"
    source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", "{}x{}".format(*SIZE), "-i", "-"]
    command = [get_ffmpeg_exe(), "-v", "error", *source, "-vf", coded, "-c:v", "ffv1"]
    command += ["-color_trc", "bt709", "-color_primaries", primaries]
    command += ["-colorspace", matrix, "-color_range", "tv", path]
    subprocess.run(command, input=colors.tobytes(), check=True)
    report_conversions(open_video(path))
    (frame,) = full_frames(open_video(path), [0], 640)
    assert np.abs(frame.astype(int) - colors).mean() < 2
    assert caplog.messages == [
        f"{path} is a wide-gamut video ({name}); converting its frames to sRGB"
    ]


def test_a_usual_video_is_left_as_it_is(tmp_path, colors, caplog):
    caplog.set_level("INFO", "nerfmac")
    path = tmp_path / "clip.mkv"
    source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", "{}x{}".format(*SIZE), "-i", "-"]
    command = [get_ffmpeg_exe(), "-v", "error", *source, "-pix_fmt", "gbrp", "-c:v", "ffv1", path]
    subprocess.run(command, input=colors.tobytes(), check=True)
    report_conversions(open_video(path))
    (frame,) = full_frames(open_video(path), [0], 640)
    np.testing.assert_array_equal(frame, colors)
    assert caplog.messages == []
