"""`nerfmac render` and `nerfmac eval` show and measure a saved run."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from nerfmac import Camera, CameraPath, Goal, Keyframe, Lens, Run, load_scene, train
from nerfmac.app.video import encoding
from nerfmac.rendering.renderer import to_bytes
from tests.decoding import decoded
from tests.scene_factory import CONFIG, HEIGHT, WIDTH, _pose, nerfmac, write_scene

LENS = Lens.from_fov(0.6, WIDTH, HEIGHT)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("made")
    scene = load_scene(write_scene(place / "balls"))
    train(scene, config=CONFIG, goal=Goal(steps=150), out=place / "run", progress=False)
    return place / "run"


def images(folder):
    return [np.asarray(Image.open(path)).copy() for path in sorted(folder.glob("frame_*.png"))]


def test_a_turn_is_a_video_of_as_many_frames_as_asked_for(folder, tmp_path):
    out = tmp_path / "video.mp4"
    assert nerfmac("render", folder, "--frames", 5, "--out", out) == 0
    _, frames = decoded(out)
    assert frames.shape == (5, HEIGHT, WIDTH, 3)
    assert all(frame.std() > 5 for frame in frames), "a frame shows nothing"
    assert not np.array_equal(frames[0], frames[2])


def test_a_saved_camera_path_is_rendered_from_its_first_keyframe_to_its_last(folder, tmp_path):
    run = Run.load(folder)
    keyframes = [Keyframe(each.pose, 0.5 + 0.2 * i) for i, each in enumerate(run.cameras[:3])]
    CameraPath(keyframes).save(tmp_path / "tour.JSON")
    out = tmp_path / "frames"
    flags = ("--path", tmp_path / "tour.JSON", "--frames", 4, "--size", "32x24", "--out", out)
    assert nerfmac("render", folder, *flags) == 0
    rendered = images(out)
    assert len(rendered) == 4
    for image, keyframe in ((rendered[0], keyframes[0]), (rendered[-1], keyframes[-1])):
        want = 255.0 * run.render(keyframe.camera(32, 24)).color
        assert np.abs(image - want).max() < 2.0
    assert np.abs(rendered[1].astype(float) - rendered[2]).mean() > 1.0


def test_eval_prints_each_view_and_writes_the_same_figures(folder, tmp_path, capsys):
    file = tmp_path / "quality.json"
    assert nerfmac("eval", folder, "--json", file, "--device", "cpu") == 0
    told = json.loads(file.read_text())
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    for name, line in zip(told["views"], lines, strict=False):
        assert line.startswith(name)
        assert f"{told['views'][name]['psnr']:.2f} dB" in line
    assert f"{told['psnr_test']:.2f} dB  SSIM {told['ssim_test']:.4f}" in lines[-1]
    views = told["views"].values()
    assert told["psnr_test"] == pytest.approx(np.mean([view["psnr"] for view in views]))
    assert told["ssim_test"] == pytest.approx(np.mean([view["ssim"] for view in views]))
    assert (told["test_views"], told["background"], told["device"]) == (2, "white", "cpu")


def test_eval_measures_what_render_shows_also_on_a_page(folder, tmp_path, capsys):
    out, file, page = (tmp_path / name for name in ("frames", "quality.json", "views.html"))
    assert nerfmac("render", folder, "--path", "test", "--out", out) == 0
    assert capsys.readouterr().out == f"{out}\n"
    assert nerfmac("eval", folder, "--json", file) == 0
    printed = capsys.readouterr().out
    assert nerfmac("eval", folder, "--html", page) == 0
    assert capsys.readouterr().out == printed
    assert page.read_text().count("<section") == 2
    told = json.loads(file.read_text())["views"]
    for index, (image, view) in enumerate(zip(images(out), told.values(), strict=True)):
        with Image.open(folder.parent / "balls" / "test" / f"r_{index}.png") as photo:
            target = np.asarray(photo).astype(float) / 255
        target = target[..., :3] * target[..., 3:] + 1 - target[..., 3:]
        psnr = -10 * np.log10(np.square(image / 255 - target).mean())
        assert psnr == pytest.approx(view["psnr"], abs=0.05)  # the images are rounded


def test_an_interrupted_video_is_continued_by_the_same_command(
    folder, tmp_path, monkeypatch, caplog, capfd
):
    caplog.set_level("INFO", "nerfmac")
    out, saved = tmp_path / "a.mp4", []
    save = encoding.save_png

    def interrupted(path, *rest):
        if len(saved) == 2:
            raise KeyboardInterrupt
        saved.append(path.name)
        save(path, *rest)

    again = ("render", folder, "--frames", 5, "--size", "20x16", "--out", out)
    monkeypatch.setattr(encoding, "save_png", interrupted)
    assert nerfmac(*again) == 130
    assert not out.exists()
    assert {path.name for path in Path(f"{out}.frames").glob("*.png")} == {*saved}

    monkeypatch.setattr(encoding, "save_png", save)
    caplog.clear()
    capfd.readouterr()
    assert nerfmac(*again) == 0
    # Frames that are read are neither announced nor counted as rendered.
    (line,) = [line for line in caplog.messages if "takes about" in line]
    assert line.startswith("rendering 3 frames of 20x16 pixels")
    bar = capfd.readouterr().err
    assert "2/5" in bar
    assert "0/5" not in bar
    assert len(decoded(out)[1]) == 5
    assert not Path(f"{out}.frames").exists()


def scene_file(folder, **values):
    """A file with three cameras in addition to the cameras of the run, and their poses."""
    poses = [_pose(index, LENS) for index in (20, 21, 22)]
    frames = [
        {"file_path": f"./test/{i:04}.png", "transform_matrix": [*p.tolist(), [0, 0, 0, 1]]}
        for i, p in enumerate(poses)
    ]
    path = folder / "transforms_test.json"
    path.write_text(json.dumps({"camera_angle_x": 0.6, "frames": frames, **values}))
    return path


@pytest.mark.parametrize("size", [{}, {"w": 30, "h": 24}])
def test_a_scene_s_file_is_a_path_with_one_frame_for_each_camera(folder, tmp_path, size):
    path = scene_file(tmp_path, **size)
    assert nerfmac("render", folder, "--path", path, "--out", tmp_path / "out") == 0
    shown = images(tmp_path / "out")
    width, height = size.get("w", WIDTH), size.get("h", HEIGHT)
    assert [image.shape for image in shown] == [(height, width, 3)] * 3
    run, lens = Run.load(folder), Lens.from_fov(0.6, width, height)
    for image, index in zip(shown, (20, 21, 22), strict=True):
        pose = run.scene.placement.apply(_pose(index, LENS))
        expected = to_bytes(run.render(Camera(lens, pose)).color)
        assert np.abs(image.astype(int) - expected).max() <= 1
    tour = ("--path", path, "--frames", 7, "--out", tmp_path / "tour")
    assert nerfmac("render", folder, *tour) == 0
    assert len(images(tmp_path / "tour")) == 7


@pytest.fixture
def moved(run, scene, tmp_path):
    """The scene of `run`, moved away from the recorded path."""
    record = json.loads((run / "scene.json").read_text())
    (run / "scene.json").write_text(json.dumps({**record, "path": str(scene)}))
    return scene.rename(tmp_path / "moved")


def test_a_run_whose_scene_has_been_moved_is_evaluated_with_it(run, scene, moved, tmp_path, capsys):
    assert nerfmac("eval", run) == 2
    told = capsys.readouterr().err
    assert str(scene) in told
    assert "nerfmac eval RUN --scene SCENE" in told
    assert nerfmac("eval", run, "--scene", moved, "--json", tmp_path / "q.json") == 0
    assert "mean of 2" in capsys.readouterr().out
    assert json.loads((tmp_path / "q.json").read_text())["protocol"]["scene"] == str(moved)
    other = write_scene(tmp_path / "other", test=1, train=3)
    assert nerfmac("eval", run, "--scene", other) == 2
    assert "another camera for" in capsys.readouterr().err


def test_the_test_split_needs_no_images(tmp_path):
    scene = write_scene(tmp_path / "balls", test=0)
    train(scene, config=CONFIG, goal=Goal(steps=2), out=tmp_path / "run", progress=False)
    scene_file(scene)
    flags = ("--path", "test", "--out", tmp_path / "out")
    assert nerfmac("render", tmp_path / "run", *flags) == 0
    assert len(images(tmp_path / "out")) == 3
