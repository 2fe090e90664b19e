"""A focal length that EXIF does not name is found by pycolmap from matches alone."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from nerfmac.app.capture import focal, structure
from nerfmac.app.capture.structure import Solver
from nerfmac.app.scenes.readers.colmap_model import read_model
from tests.app.capture.matched_ring import WIDTH, write_matches

pytest.importorskip("pycolmap", reason="needs pycolmap, of the extra capture")

pytestmark = pytest.mark.slow


@pytest.fixture
def solver(tmp_path):
    """Return a function that gives a solver of images with matches; `known` is their focal."""

    def solver_of(known=0.0, **ring):
        images = write_matches(tmp_path, **ring)
        images = [image._replace(focal=known * WIDTH) for image in images]
        (tmp_path / "images").mkdir()
        bar = SimpleNamespace(update=lambda count: None)
        return Solver(tmp_path, tmp_path / "images", images, lambda *_: nullcontext(bar))

    return solver_of


@pytest.fixture
def trials(monkeypatch):
    done = []

    def choose(tried):
        done.extend(tried)
        return focal.choose_trial(tried)

    monkeypatch.setattr(structure, "GUESSES", (0.85, 1.4))
    monkeypatch.setattr(structure, "choose_trial", choose)
    return done


def test_a_guess_is_held_while_mapping(solver, trials):
    found = solver(focal=1.4, depth=0.4)._map("sequential")
    far, near = trials
    assert far.observations < near.observations
    assert found.focal == pytest.approx(1.4, rel=0.005)


def test_a_wrong_guess_that_keeps_few_points_does_not_win(solver, trials):
    found = solver(focal=1.4)._map("sequential")
    least = min(trials, key=lambda trial: trial.error)
    assert abs(least.focal - 1.4) > 0.02, "the least error alone is that of a wrong focal length"
    assert found.trial.guess == 1.4
    assert found.focal == pytest.approx(1.4, rel=0.005)
    assert len(found.model.images) == 12


def test_images_that_fit_any_focal_length_are_refused(solver):
    with pytest.raises(focal.UnknownFocalError, match=r"--focal-35mm"):
        solver(focal=1.0, arc=6.0, count=8)._map("sequential")


def test_a_focal_length_that_is_known_is_not_tried(solver):
    found = solver(known=1.0, focal=1.0, arc=90.0)._map("sequential")
    assert found.trial is None
    assert not (found.folder.parent / "trial").exists()
    (camera,) = read_model(found.folder).cameras.values()
    assert camera.parameters["fl_x"] == pytest.approx(WIDTH, rel=0.005)
