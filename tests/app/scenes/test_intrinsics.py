"""COLMAP models and JSON files accept and refuse the same camera models."""

import numpy as np
import pytest

from nerfmac import load_scene
from nerfmac.app.scenes.readers.intrinsics import PARAMETERS, READ
from tests.app.scenes.scene_files import WIDTH, write_transforms


def test_the_models_and_their_numbers_are_those_of_colmap():
    pycolmap = pytest.importorskip("pycolmap")
    ids = [model for model in pycolmap.CameraModelId.__members__.values() if int(model) >= 0]
    assert list(PARAMETERS) == [model.name for model in sorted(ids, key=int)]
    for model in ids:
        camera = pycolmap.Camera.create_from_model_id(1, model, 100.0, 100, 80)
        assert len(PARAMETERS[model.name].split()) == len(camera.params)


@pytest.mark.parametrize("model", [*READ, "PERSPECTIVE", "opencv_fisheye"])
def test_every_model_that_is_read_may_be_named_in_json(tmp_path, model):
    scene = load_scene(write_transforms(tmp_path, 2, camera_model=model), split="none")
    lens = scene.splits["train"][0].camera.lens
    assert lens.is_fisheye == ("FISHEYE" in model.upper())


@pytest.mark.parametrize("angle", [0.8, 3.5])
def test_an_angle_that_contradicts_the_focal_length_is_reported(tmp_path, caplog, angle):
    own = {"camera_angle_x": 2 * np.arctan(WIDTH / 2 / 30.0)}  # fl_x is 30.
    load_scene(write_transforms(tmp_path / "agreeing", 2, **own), split="none")
    assert "camera_angle_x" not in caplog.text
    load_scene(write_transforms(tmp_path / "other", 2, camera_angle_x=angle), split="none")
    assert caplog.text.count("but fl_x is 30; using fl_x. One of the two is wrong") == 1
