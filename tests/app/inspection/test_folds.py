"""Detection of repeated structure: cameras jump, but their images do not change much."""

import numpy as np
import pytest

from nerfmac.app.inspection.images import fold_findings, folds_of_training
from nerfmac.app.scenes import load_scene
from nerfmac.geometry.cameras import Camera
from nerfmac.geometry.lenses import Lens
from tests.app.scenes.scene_files import save, write_json
from tests.scene_factory import nerfmac

NAMES = [f"{number}.jpg" for number in range(36)]
LENS = Lens.from_fov(1.0, 96, 64)


def cameras(degrees):
    """Return cameras at these angles of a circle, looking at its center."""
    angles = np.radians(degrees)
    eyes = np.stack([2 * np.cos(angles), 2.5 * np.sin(angles), np.full(36, 0.7)], axis=1)
    return [Camera.look_at(eye, (0, 0, 0), (0, 0, 1), LENS) for eye in eyes]


def looks(degrees):
    """Return what gives the thumbnails at these angles: waves that move as the camera does."""
    columns = np.linspace(0, 3, 32)

    def thumbnail(index):
        angle = np.radians(degrees[index])
        return 128 + 60 * np.sin(columns[None] + 2 * angle) * np.cos(columns[:, None] - angle)

    return thumbnail


WALK = np.arange(36) * 10.0
FOLDED = np.where(WALK < 180, WALK, WALK - 180)


def test_a_walk_around_a_thing_is_not_named():
    assert fold_findings(NAMES, cameras(WALK), looks(WALK)) == []


def test_a_fold_is_named_where_it_tears(tmp_path):
    (line,) = fold_findings(NAMES, cameras(FOLDED), looks(WALK))
    assert line.startswith("17.jpg and 18.jpg are successive and look alike, but their cameras")
    assert "look 1" in line


def test_a_leap_between_images_that_differ_is_none():
    assert fold_findings(NAMES, cameras(FOLDED), looks(np.where(WALK < 180, WALK, WALK + 90))) == []


@pytest.mark.parametrize("seed", [1, 2])
def test_an_order_that_is_no_walk_says_nothing(seed):
    order = np.random.default_rng(seed).permutation(FOLDED)
    assert fold_findings(NAMES, cameras(order), looks(np.zeros(36))) == []


def test_a_few_images_say_nothing():
    some = slice(12, 23)
    found = fold_findings(NAMES[some], cameras(FOLDED)[some], looks(WALK[some]))
    assert found == []


def test_a_model_of_a_can_that_is_folded_is_named(real_scenes):
    folder = real_scenes / "phone_beer"
    if not folder.is_dir():
        pytest.skip(f"no phone_beer in {real_scenes}")
    found = folds_of_training(load_scene(folder, downscale=4))
    assert found[0].startswith("images/0013.jpg and images/0014.jpg are successive")


def test_training_names_a_fold_too(tmp_path, caplog, on_the_cpu, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frames = []
    for index, camera in enumerate(cameras(FOLDED)):
        image = looks(WALK)(index).astype(np.uint8).repeat(3, axis=1).repeat(2, axis=0)
        save(tmp_path / f"yard/{index:02}.png", np.stack([image] * 3, axis=2))
        pose = [*camera.pose.tolist(), [0.0, 0.0, 0.0, 1.0]]
        frames.append({"file_path": f"{index:02}.png", "transform_matrix": pose})
    path = write_json(tmp_path / "yard/transforms.json", {"fl_x": 90.0, "frames": frames})
    flags = "--preset", "tiny", "--steps", 2, "--no-video", "--split", "none"
    assert nerfmac("train", path, "--out", "run", *flags) == 0
    (told,) = [line for line in caplog.messages if "look alike" in line]
    assert told.startswith("17.png and 18.png")
