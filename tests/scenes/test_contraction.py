"""Which scenes have their far space contracted, outside which cube, and how it is said."""

import json
from pathlib import Path

import numpy as np
import pytest

from nerfmac.common.checks import InputError
from nerfmac.scenes import load_scene
from nerfmac.scenes.contraction import described_contraction, inner_side
from nerfmac.scenes.record import SceneRecord
from tests.scenes.scene_files import write_transforms


def ring(distance: float, *, outwards: bool = False) -> np.ndarray:
    """Poses (12, 3, 4) of cameras around the centre that look at it, or away from it."""
    poses = []
    for angle in np.linspace(0.0, 2.0 * np.pi, 12, endpoint=False):
        away = np.array([np.cos(angle), np.sin(angle), 0.0])
        back = -away if outwards else away
        right = np.array([-back[1], back[0], 0.0])
        columns = right, np.cross(back, right), back, 0.5 + distance * away
        poses.append(np.stack(columns, axis=1))
    return np.stack(poses)


def far_points(reach: float) -> np.ndarray:
    return 0.5 + reach * np.array([[1.0, 0.2, 0.1], [-0.3, 1.0, 0.4], [0.2, -0.5, -1.0]])


def test_nothing_is_contracted_where_all_is_near():
    assert inner_side("on", 1.0, ring(0.3), None) == pytest.approx(0.6)
    assert inner_side("on", 1.0, ring(1.3), None) is None, "all of it is near"


def test_cameras_that_look_inwards_say_what_is_near():
    assert inner_side("on", 8.0, ring(0.9), None) == pytest.approx(1.8)
    assert inner_side("on", 8.0, ring(0.9), far_points(3.0)) == pytest.approx(1.8)
    assert inner_side("on", 1.5, ring(0.9), None) is None


def test_around_cameras_that_look_outwards_it_is_what_they_see():
    looking = ring(0.5, outwards=True)
    assert inner_side("on", 32.0, looking, far_points(3.0)) == pytest.approx(6.0)
    assert inner_side("on", 32.0, looking, far_points(0.2)) == pytest.approx(1.0)
    assert inner_side("on", 32.0, looking, None) == pytest.approx(8.0)


def test_a_user_decides_otherwise():
    assert inner_side("off", 8.0, ring(0.9), None) is None
    assert inner_side(3.0, 8.0, ring(0.9), None) == 3.0
    assert inner_side(9.0, 8.0, ring(0.9), None) is None


def test_a_scene_has_it_and_says_so(tmp_path):
    path = write_transforms(tmp_path, 4)
    scene = load_scene(path, extent=16.0, contraction="on")
    assert 0 < scene.inner < 16
    assert scene.bounds.is_contracted
    assert described_contraction(scene).startswith(f"contracted from {scene.inner / 2:.2f} to 8 ")
    assert "inwards" in described_contraction(scene)
    asked = load_scene(path, extent=16.0, contraction="2.5")
    assert asked.inner == 2.5
    assert "by --contraction" in described_contraction(asked)
    none = load_scene(path, extent=16.0)
    assert none.inner is None
    assert not none.bounds.is_contracted
    assert described_contraction(none) == "not contracted, by --contraction off"
    small = load_scene(path, extent=0.1, contraction="on")
    assert "the cube of side 0.1 is all near" in described_contraction(small)


@pytest.mark.parametrize("wrong", ["of", "0", -1.0, float("nan"), "inf"])
def test_another_word_or_an_impossible_side_is_refused(tmp_path, wrong):
    with pytest.raises(InputError, match=r"^contraction is"):
        load_scene(write_transforms(tmp_path, 4), contraction=wrong)


def test_a_record_keeps_it_and_an_older_one_has_none(tmp_path):
    scene = load_scene(write_transforms(tmp_path, 4), extent=16.0, contraction=2.5)
    values = json.loads(json.dumps(SceneRecord.of(scene).to_json()))
    read = SceneRecord.from_json(values, Path("scene.json"))
    assert read.bounds == scene.bounds
    assert read.options.contraction == 2.5
    del values["inner"], values["options"]["contraction"]
    older = SceneRecord.from_json(values, Path("scene.json"))
    assert older.inner is None
    assert older.options.contraction == "off", "its scene is read again as it was"
