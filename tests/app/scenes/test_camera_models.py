"""COLMAP models and JSON files accept and refuse the same camera models."""

import pytest

from nerfmac import InputError, load_scene
from nerfmac.app.scenes.readers.camera_models import PARAMETERS, READ
from tests.app.scenes.colmap_files import write_colmap
from tests.app.scenes.scene_files import write_transforms


def test_the_models_and_their_numbers_are_those_of_colmap():
    pycolmap = pytest.importorskip("pycolmap")
    ids = [model for model in pycolmap.CameraModelId.__members__.values() if int(model) >= 0]
    assert list(PARAMETERS) == [model.name for model in sorted(ids, key=int)]
    for model in ids:
        camera = pycolmap.Camera.create_from_model_id(1, model, 100.0, 100, 80)
        assert len(PARAMETERS[model.name].split()) == len(camera.params)


OTHER = {
    "FOV": (30.0, 29.0, 11.0, 8.5, 0.9),
    "EUCM": (30.0, 29.0, 11.0, 8.5, 0.6, 1.1),
    "SIMPLE_DIVISION": (30.0, 11.0, 8.5, -0.1),
    "THIN_PRISM_FISHEYE": (30.0, 29.0, 11.0, 8.5, *[0.01] * 8),
    "EQUIRECTANGULAR": (24.0, 16.0),
}


@pytest.mark.parametrize("model", OTHER)
@pytest.mark.parametrize("form", ["binary", "text", "json"])
def test_a_model_that_is_not_read_is_refused_with_the_same_advice(tmp_path, model, form):
    if form == "json":
        write_transforms(tmp_path, 2, camera_model=model)
    else:
        write_colmap(tmp_path, 2, model=model, parameters=OTHER[model], binary=form == "binary")
    with pytest.raises(InputError) as error:
        load_scene(tmp_path)
    told = str(error.value)
    assert f": the camera model {'is ' * (model == 'EQUIRECTANGULAR')}{model}" in told
    assert "nerfmac capture" not in told, "which refuses such images, too"
    if model == "EQUIRECTANGULAR":
        assert "cut each image into several perspective images" in told
    else:
        assert f"expected one of {', '.join(READ)}: undistort the images" in told


@pytest.mark.parametrize("model", ["ORTHOPHOTO", "FISHEYE624", "MY_MODEL"])
def test_a_model_of_another_program_is_refused(tmp_path, model):
    write_colmap(tmp_path / "a", 2, model=model, parameters=(1.0, 2.0), binary=False)
    write_transforms(tmp_path / "b", 2, camera_model=model)
    for folder in ("a", "b"):
        with pytest.raises(InputError, match=f"the camera model {model} is not supported"):
            load_scene(tmp_path / folder)


@pytest.mark.parametrize("model", [*READ, "PERSPECTIVE", "opencv_fisheye"])
def test_every_model_that_is_read_may_be_named_in_json(tmp_path, model):
    scene = load_scene(write_transforms(tmp_path, 2, camera_model=model), split="none")
    lens = scene.splits["train"][0].camera.lens
    assert lens.is_fisheye == ("FISHEYE" in model.upper())
