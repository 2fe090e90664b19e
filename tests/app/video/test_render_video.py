"""Videos are decoded again and compared with a scene known in closed form."""

import subprocess
import tracemalloc
from dataclasses import replace

import imageio_ffmpeg
import mlx.core as mx
import numpy as np
import pytest
from PIL import Image

from nerfmac import Camera, InputError, Method, Renderer, Run
from nerfmac.app.video import encoding, render_video, write_video
from nerfmac.config.rendering import RenderOptions, VideoOptions
from tests.app.video.ball import CENTER, FRONT, LENS, RADIUS, SIDE, Ball, hits, values_of
from tests.decoding import decoded
from tests.killed import half_written
from tests.pinhole import pixel_rays
from tests.scene_factory import CONFIG


def render(run, cameras, out, options=None, **video):
    """Render without a progress bar. `video` are fields of `VideoOptions`."""
    render_video(run, cameras, out, options, VideoOptions(**video), progress=False)


def pixels(path) -> np.ndarray:
    with Image.open(path) as image:
        return np.asarray(image)


def read_exr(path, channels) -> np.ndarray:
    layout = {1: "grayf32le", 3: "gbrpf32le", 4: "gbrapf32le"}[channels]
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-i", str(path)]
    command += ["-f", "rawvideo", "-pix_fmt", layout, "-"]
    data = subprocess.run(command, capture_output=True, check=True).stdout
    planes = np.frombuffer(data, "<f4").reshape(channels, LENS.height, LENS.width)
    return planes[0] if channels == 1 else planes[[2, 0, 1, 3][:channels]].transpose(1, 2, 0)


def test_depth_is_the_distance_in_scene_units(run, tmp_path):
    want = hits(*pixel_rays(FRONT))
    seen = np.isfinite(want)
    assert 0.1 < seen.mean() < 0.5, "the ball fills the image, or nearly none of it"
    depth, opacity = values_of(run, output="depth")
    error = np.abs(depth - want)[seen]
    assert error.mean() < 0.01 * want[seen].mean()
    assert (depth[np.isinf(want)] == 0.0).all()
    assert (opacity[seen] > 0.99).all()
    render(run, [FRONT], tmp_path / "exr", RenderOptions("depth"), format="exr")
    exr = read_exr(tmp_path / "exr" / "frame_00000.exr", 1)
    assert np.array_equal(exr, depth)


def test_normals_point_out_of_the_ball(run, tmp_path):
    origin, direction = pixel_rays(FRONT)
    distance = hits(origin, direction)
    seen = np.isfinite(distance)
    want = (origin + distance[seen][:, None] * direction[seen] - CENTER) / RADIUS
    got = values_of(run, output="normal").values
    # Of eight corners around a point of this sharp edge, few are inside of the ball.
    assert np.mean((got[seen] * want).sum(axis=1)) > 0.95
    render(run, [FRONT], tmp_path / "exr", RenderOptions("normal"), format="exr")
    assert np.array_equal(read_exr(tmp_path / "exr" / "frame_00000.exr", 3), got)
    render(run, [FRONT], tmp_path / "png", RenderOptions(output="normal"))
    image = pixels(tmp_path / "png" / "frame_00000.png")
    assert np.abs(image[seen] - 127.5 * (1.0 + got[seen])).max() < 1.0


def test_colors_are_srgb_in_memory_and_linear_light_in_exr(run, tmp_path):
    got = values_of(run, background=(0.2, 0.4, 0.6)).values
    outside = np.isinf(hits(*pixel_rays(FRONT)))
    assert got[outside] == pytest.approx(np.tile([0.2, 0.4, 0.6], (outside.sum(), 1)), abs=1e-6)
    want = 255.0 * run.render(FRONT, (0.2, 0.4, 0.6)).color
    assert 255.0 * got == pytest.approx(want, abs=1e-3)
    shot = RenderOptions(background=(0.2, 0.4, 0.6))
    render(run, [FRONT], tmp_path / "exr", shot, format="exr")
    exr = read_exr(tmp_path / "exr" / "frame_00000.exr", 3)
    assert exr[outside][0] == pytest.approx([0.0331, 0.1329, 0.3185], abs=2e-4)


def test_depth_is_colored_alike_in_all_frames(run, tmp_path):
    shot = RenderOptions(
        output="depth", colormap="gray", background=(0.0, 0.0, 0.0), depth_range=(1, 2)
    )
    render(run, [FRONT, SIDE], tmp_path / "png", shot)
    for index, camera in enumerate([FRONT, SIDE]):
        want = hits(*pixel_rays(camera))
        got = pixels(tmp_path / "png" / f"frame_0000{index}.png")[np.isfinite(want)][:, 0]
        shade = 255.0 * np.clip(2.0 - want[np.isfinite(want)], 0.0, 1.0)
        assert np.abs(got - shade).mean() < 5.0
    render(run, [FRONT, SIDE], tmp_path / "any", replace(shot, depth_range=None))
    assert pixels(tmp_path / "any" / "frame_00000.png").max() > 200


def test_near_and_crop_cut_the_scene(run):
    whole = values_of(run, output="depth").values
    middle = whole[14, 18]
    near = values_of(run, output="depth", near=float(middle) + 0.1).values
    assert near[14, 18] == pytest.approx(middle + 0.1, abs=0.02)
    box = ((0.0, -9.0, -9.0), (9.0, 9.0, 9.0))  # the files' origin is in the cube's middle
    half = values_of(run, output="depth", crop=box)
    origin, direction = pixel_rays(FRONT)
    place = origin + half.values[..., None] * direction
    seen = half.opacity > 0.99
    assert 20 < seen.sum() < 0.9 * (whole > 0.0).sum()
    assert place[seen][:, 0].min() > 0.45


@pytest.mark.parametrize("kind", ["mp4", "webm", "gif"])
def test_a_video_has_the_images_in_order_with_their_size_rate_and_colors(run, tmp_path, kind):
    cameras = [Camera(LENS, each.pose) for each in (FRONT, SIDE, FRONT)]
    render(run, cameras, tmp_path / f"video.{kind}", fps=12.5)
    about, frames = decoded(tmp_path / f"video.{kind}")
    assert frames.shape == (3, 30, 40, 3)
    assert "12.50 fps" in about or "12.5 fps" in about
    for frame, camera in zip(frames, cameras, strict=True):
        want = 255.0 * run.render(camera).color
        assert np.abs(frame - want).mean() < 4.0
    assert [path.name for path in tmp_path.iterdir()] == [f"video.{kind}"]


def test_runs_stand_side_by_side(run, scene, tmp_path):
    class Hole(Ball):
        def density_at(self, parameters, position):
            return 0.0 * super().density_at(parameters, position)

    other = Run.begin(scene, CONFIG, method=Method(field=Hole))
    render([run, other, run], [SIDE, FRONT], tmp_path / "some")
    render(run, [SIDE, FRONT], tmp_path / "one")
    for name in ("frame_00000.png", "frame_00001.png"):
        some, one = (pixels(tmp_path / folder / name) for folder in ("some", "one"))
        left, middle, right = np.split(some, 3, axis=1)
        assert np.array_equal(left, one)
        assert np.array_equal(right, one)
        assert (middle == 255).all()
    with pytest.raises(InputError, match="exr files support only one run and one eye"):
        render([run, other], [FRONT], tmp_path / "exr", format="exr")
    stranger = replace(run, scene=replace(run.scene, path="/elsewhere"))
    with pytest.raises(InputError, match="/elsewhere are different scenes"):
        render([run, stranger], [FRONT], tmp_path / "exr")


def interrupted(run, out, monkeypatch, after=2, **video):
    """Begin a video of five frames that ends with an error after some of them."""
    cameras = [FRONT, SIDE, FRONT, SIDE, FRONT]
    usual, drawn = Renderer.image, []

    def image(self, *given):
        drawn.append(given)
        if len(drawn) > after + 2:  # one frame is computed, and one waits to be confirmed
            raise KeyboardInterrupt
        return usual(self, *given)

    with monkeypatch.context() as patch:
        patch.setattr(Renderer, "image", image)
        with pytest.raises(KeyboardInterrupt):
            render(run, cameras, out, **video)
    return cameras


@pytest.mark.parametrize("form", ["png", "exr"])
def test_a_broken_series_goes_on_where_it_broke_and_makes_no_frame_twice(
    run, tmp_path, monkeypatch, form
):
    cameras = interrupted(run, tmp_path / "some", monkeypatch, format=form)
    made = {path: path.stat().st_mtime_ns for path in (tmp_path / "some").glob("frame_*")}
    assert len(made) == 2
    abandoned = half_written(tmp_path / "some" / f"frame_00002.{form}")
    render(run, cameras, tmp_path / "some", format=form, resume=True)
    assert all(path.stat().st_mtime_ns == when for path, when in made.items())
    assert not abandoned.exists()
    render(run, cameras, tmp_path / "whole", format=form)
    for index in range(5):
        name = f"frame_0000{index}.{form}"
        assert (tmp_path / "some" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_broken_video_goes_on_where_it_broke(run, tmp_path, monkeypatch):
    cameras = interrupted(run, tmp_path / "some.mp4", monkeypatch, resume=True)
    assert not (tmp_path / "some.mp4").exists()
    assert len(list((tmp_path / "some.mp4.frames").glob("frame_*"))) == 2
    half_written(tmp_path / "some.mp4")
    render(run, cameras, tmp_path / "some.mp4", resume=True)
    render(run, cameras, tmp_path / "whole.mp4")
    some, whole = (decoded(tmp_path / f"{name}.mp4")[1] for name in ("some", "whole"))
    assert np.array_equal(some, whole)
    assert {path.name for path in tmp_path.iterdir()} == {"some.mp4", "whole.mp4"}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"options": RenderOptions(exposure=1.0)}, "exposure"),
        ({"format": "exr"}, "format"),
        ({}, "path"),
        ({}, "size"),
        ({}, "number of frames"),
    ],
)
def test_frames_of_another_video_are_not_taken_for_this_ones(run, tmp_path, change, named):
    render(run, [FRONT], tmp_path / "some")
    small = Camera(FRONT.lens.scaled(FRONT.lens.width // 2, FRONT.lens.height // 2), FRONT.pose)
    others = {"path": [SIDE], "size": [small], "number of frames": [FRONT, SIDE]}
    cameras = others.get(named, [FRONT])
    with pytest.raises(InputError, match=f"rendered with another {named}; use"):
        render(run, cameras, tmp_path / "some", resume=True, **change)


def test_what_exists_is_kept_unless_it_is_to_be_overwritten(run, tmp_path):
    render(run, [FRONT, SIDE], tmp_path / "some")
    (tmp_path / "video.mp4").write_text("mine")
    for out in ("some", "video.mp4"):
        with pytest.raises(InputError, match=r"already.*overwrite"):
            render(run, [FRONT], tmp_path / out)
        render(run, [FRONT], tmp_path / out, overwrite=True)
    assert len(list((tmp_path / "some").glob("frame_*"))) == 1
    assert len(decoded(tmp_path / "video.mp4")[1]) == 1
    (tmp_path / "note").write_text("mine")
    with pytest.raises(InputError, match="note is a file; expected"):
        render(run, [FRONT], tmp_path / "note")


@pytest.mark.slow
@pytest.mark.usefixtures("on_the_cpu")
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

    monkeypatch.setattr(encoding, "write_video", watched)
    tracemalloc.start()
    try:
        render_video(run, cameras, tmp_path / "video.mp4", progress=False)
    finally:
        tracemalloc.stop()
    host, device = np.subtract(held[120], held[30])
    frame = 32 * 24 * 3
    assert host < 30 * frame, "frames are kept on the host"
    assert device < 30 * frame, "frames are kept on the device"
