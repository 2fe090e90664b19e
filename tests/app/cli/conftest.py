"""A scene and a run, small enough to be made for a test that spoils them."""

import pytest

from nerfmac import Goal, load_scene, train
from tests.scene_factory import CONFIG, write_scene


@pytest.fixture
def scene(tmp_path):
    return write_scene(tmp_path / "balls", train=3)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run to make copies of."""
    place = tmp_path_factory.mktemp("made")
    scene = load_scene(write_scene(place / "balls", train=3))
    train(scene, config=CONFIG, goal=Goal(steps=2), out=place / "run", progress=False)
    return place / "run"


@pytest.fixture
def run(made, tmp_path):
    copy = tmp_path / "run"
    copy.mkdir()
    for path in made.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    return copy
