"""The effect of each flag of `nerfmac render`, and errors for unsupported combinations."""

import json

import numpy as np
import pytest
from PIL import Image

from nerfmac import CameraPath, Keyframe, Run
from tests.app.cli.refusals import refused
from tests.decoding import decoded
from tests.scene_factory import HEIGHT, WIDTH, nerfmac

SIZE = ("--size", "24x18", "--device", "cpu")


def rendered(run, out, *flags):
    """Return the colors, from 0 to 255, of the images written with these flags."""
    assert nerfmac("render", run, *SIZE, *flags, "--out", out) == 0
    return [np.asarray(Image.open(path)).astype(float) for path in sorted(out.glob("*.png"))]


def poses(run, monkeypatch, *flags):
    """Return the poses of the cameras that are rendered with these flags."""
    found = []

    def record(runs, cameras, *_):
        found.extend(camera.pose for camera in cameras)

    monkeypatch.setattr("nerfmac.app.cli.render.render_video", record)
    assert nerfmac("render", run, *SIZE, *flags) == 0
    return found


def test_seconds_and_the_rate_give_the_frames(run, tmp_path):
    out = tmp_path / "video.mp4"
    flags = ("--seconds", 0.5, "--fps", 12, "--device", "cpu", "--out", out)
    assert nerfmac("render", run, *flags) == 0
    about, frames = decoded(out)
    assert frames.shape == (6, HEIGHT, WIDTH, 3)
    assert "12 fps" in about


def test_the_views_of_a_split_are_its_own_cameras_unless_a_tour_is_asked_for(run, monkeypatch):
    own = Run.load(run).scene.cameras("train")
    views = poses(run, monkeypatch, "--path", "train")
    assert np.allclose(views, [camera.pose for camera in own])
    toured = poses(run, monkeypatch, "--path", "train", "--frames", 3)
    assert len(toured) == 3
    assert not np.allclose(toured[0], own[0].pose, atol=1e-3)


@pytest.fixture
def studio(run, tmp_path):
    """A path of nerfstudio: 0.75 s long, at 8 frames a second of 26x20 pixels."""
    cameras = Run.load(run).scene.cameras("train")
    keyframes = [Keyframe(camera.pose, 0.7, 0.25) for camera in cameras[:3]]
    path = CameraPath(keyframes, closed=True)
    path.save(tmp_path / "tour.json", "nerfstudio", fps=8.0, size=(26, 20))
    return tmp_path / "tour.json"


def test_a_path_of_nerfstudio_has_its_length_rate_and_size_unless_flags_say_otherwise(
    run, studio, tmp_path, caplog
):
    flags = ("--path", studio, "--device", "cpu")
    assert nerfmac("render", run, *flags, "--out", tmp_path / "video.mp4") == 0
    about, frames = decoded(tmp_path / "video.mp4")
    assert (frames.shape, "8 fps" in about) == ((6, 20, 26, 3), True)
    assert f"{studio} specifies 26x20 pixels, 8 frames per second" in caplog.text
    caplog.clear()
    other = ("--fps", 4, "--size", "24x18", "--out", tmp_path / "other.mp4")
    assert nerfmac("render", run, *flags, *other) == 0
    about, frames = decoded(tmp_path / "other.mp4")
    assert (frames.shape, "4 fps" in about) == ((3, 18, 24, 3), True)
    assert "specifies" not in caplog.text


def test_crop_near_background_and_exposure_reach_the_images(run, tmp_path):
    def color(name, *flags):
        return rendered(run, tmp_path / name, "--frames", 1, *flags)[0]

    plain = color("plain", "--background", "51,102,153")
    nothing = color("near", "--background", "51,102,153", "--near", 50)
    assert (nothing == (51, 102, 153)).all()
    assert not np.allclose(plain, nothing, atol=3)
    crop = ("--crop", "-9,-9,-9,-8,-8,-8")
    assert np.array_equal(color("crop", "--background", "51,102,153", *crop), nothing)
    brighter = color("bright", "--background", "51,102,153", "--exposure", 1)
    assert (brighter >= plain).all()
    assert brighter.mean() > plain.mean() + 12


def test_blur_takes_several_samples_of_itself(run, tmp_path):
    (sharp,) = rendered(run, tmp_path / "sharp", "--frames", 1)
    flags = ("--depth-of-field", 0.1, "--samples-per-pixel", 4)
    (soft,) = rendered(run, tmp_path / "soft", "--frames", 1, *flags)
    moving = rendered(
        run, tmp_path / "moving", "--frames", 2, "--motion-blur", 0.5, "--samples-per-pixel", 3
    )
    for other in (soft, moving[0]):
        assert np.abs(other - sharp).mean() > 0.3
    record = json.loads((tmp_path / "soft" / "series.json").read_text())
    assert (record["samples_per_pixel"], record["depth_of_field"]) == (4, 0.1)


def test_a_folder_is_gone_on_with_or_replaced_only_if_asked(run, tmp_path, capsys):
    out, flags = tmp_path / "out", ("--frames", 3, "--device", "cpu")
    assert nerfmac("render", run, *flags, "--out", out) == 0
    capsys.readouterr()
    refused(capsys, tmp_path, "render", run, *flags, "--out", out, names=[out, "--resume"])
    (out / "frame_00001.png").unlink()
    assert nerfmac("render", run, *flags, "--out", out, "--resume") == 0
    assert len(list(out.glob("frame_*.png"))) == 3
    assert nerfmac("render", run, "--frames", 1, *flags[2:], "--out", out, "--overwrite") == 0
    assert len(list(out.glob("frame_*.png"))) == 1


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        (("--frames", 0), ["--frames is 0", "between 1 and"]),
        (("--seconds", 50_000), ["--seconds is 50000; expected between 0.01 and 41666"]),
        (("--fps", 1e9), ["--fps is 1e+09; expected between 1 and 1000"]),
        (("--frames", 2, "--seconds", 1), ["--frames and --seconds", "remove one"]),
        (("--fps", 60, "--out", "a.gif"), ["fps is 60", "between 1 and 50"]),
        (("--path", "orbti"), ["'orbti'", "did you mean orbit?"]),
        (("--path", "nowhere.json"), ["nowhere.json cannot be read"]),
        (("--colormap", "jet"), ["--colormap is 'jet'", "turbo"]),
        (("--background", "mauve"), ["--background is 'mauve'", "R,G,B"]),
        (("--background", "0,0,300"), ["background is 1.17"]),
        (("--background", "transparent"), ["orbit.mp4", "transparent", "folder"]),
        (("--depth-range", "2,1"), ["--depth-range is 1"]),
        (("--motion-blur", 1.5), ["--motion-blur is 1.5"]),
        (("--format", "exr"), ["--format exr requires a folder"]),
        (("--out", "absent/video.mp4"), ["absent", "the folder absent does not exist"]),
        (("--out", "absent/frames"), ["absent", "the folder absent does not exist"]),
        (("--path", "train", "--motion-blur", 0.5), ["--motion-blur requires a continuous path"]),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(run, capsys, tmp_path, monkeypatch, flags, names):
    monkeypatch.chdir(tmp_path)
    refused(capsys, tmp_path, "render", run, *flags, names=names)
