"""pycolmap finds known cameras and a known focal length, and compares images by their features."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image
from pose_differences import differences

from nerfmac.app.capture import capture_scene, pairs
from nerfmac.app.capture.structure import run_stage
from nerfmac.app.capture.two_views import read_features, read_matches
from nerfmac.app.scenes import load_scene
from nerfmac.app.video.encoding import write_video
from tests.app.capture.corner import LENS, cameras, seen

pytest.importorskip("pycolmap", reason="needs pycolmap, of the extra capture")

pytestmark = pytest.mark.slow


def test_a_recorded_corner(tmp_path):
    truth = cameras(12)
    path = tmp_path / "corner.mp4"
    write_video(path, (seen(camera) for camera in truth), fps=8)
    folder = capture_scene(path, tmp_path / "scene", progress=False)
    report = json.loads((folder / "capture.json").read_text())
    assert report["registered"] == report["given"] == 12
    assert report["mean_reprojection_error"] < 1.0
    frames = load_scene(folder, split="none").splits["train"]
    numbers = [int(Path(frame.name).stem.removeprefix("frame_")) for frame in frames]
    poses = np.stack([frame.camera.pose for frame in frames]).astype(float)
    away, degrees = differences(poses, np.stack([truth[n].pose for n in numbers]).astype(float))
    assert np.median(away) < 0.01
    assert np.median(degrees) < 0.5
    assert frames[0].camera.lens.fl_x == pytest.approx(LENS.fl_x, rel=0.02)


@pytest.mark.parametrize("blank", [[2], [0, 1, 2, 3, 4]])
def test_images_that_show_the_same_are_the_most_similar(tmp_path, blank):
    names = [f"{number} of 5.png" for number in range(5)]
    images = [seen(camera) for camera in cameras(5)]
    for number in blank:
        images[number] = np.full_like(images[number], 90)  # without features
    (tmp_path / "images").mkdir()
    for name, image in zip(names, images, strict=True):
        Image.fromarray(image).save(tmp_path / "images" / name)
    plan = {"names": names, "images": str(tmp_path / "images"), "masks": "", "focal_guess": 0.85}
    lenses = [{"images": some, "parameters": []} for some in (names[4:], names[:4])]
    plan |= {"lenses": lenses, "pairs": [names[3:]]}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    bar = SimpleNamespace(update=(counted := []).append)
    for stage in ("features", "matches"):
        run_stage(stage, tmp_path, bar)
    features = read_features(tmp_path / "database.db", names)
    found = pairs.similarity([features[name] for name in names], bar)
    assert sum(counted) == 11
    assert np.diag(found) == pytest.approx([float(k not in blank) for k in range(5)], abs=1e-5)
    assert not found[blank].any()
    assert [*read_matches(tmp_path / "database.db", names)] == [tuple(names[3:])] * (blank == [2])
    if blank == [2]:
        assert found[0, 1] > 1.2 * found[0, 3] > 0
        assert found[4, 3] > 1.2 * found[4, 1] > 0
