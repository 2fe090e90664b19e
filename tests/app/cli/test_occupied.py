"""Unwritable outputs and invalid options are detected before a capture that takes minutes."""

import pytest

import nerfmac as library
from nerfmac.app.capture import capture
from nerfmac.common.checks import InputError
from tests.app.capture.structures import write_images
from tests.app.cli.refusals import refused
from tests.scene_factory import FLAGS


@pytest.fixture
def photos(tmp_path, monkeypatch):
    """Return a folder of photos that must not be captured."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(capture, "capture_scene", lambda *_, **__: pytest.fail("captured"))
    write_images(tmp_path / "garden", ["a.png", "b.png", "c.png"])
    return tmp_path / "garden"


@pytest.fixture
def taken(tmp_path):
    """Return a folder that holds something else."""
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "thesis.txt").write_text("mine")
    return tmp_path / "taken"


def test_a_folder_of_something_else_is_left_alone_and_nothing_captured(
    photos, taken, tmp_path, capsys
):
    names = [f"{taken} exists already"]
    refused(capsys, tmp_path, "train", photos, *FLAGS, "--out", taken, names=names)
    with pytest.raises(InputError, match="taken exists already"):
        library.train(photos, out=taken, device="cpu")


def test_a_folder_that_cannot_be_made_is_refused_before(photos, taken, tmp_path, capsys):
    out = taken / "thesis.txt" / "run"
    names = [f"folder {out} cannot be created: {taken / 'thesis.txt'} is not a folder"]
    refused(capsys, tmp_path, "train", photos, *FLAGS, "--out", out, names=names)


def test_the_viewer_finds_it_out_before_too(photos, taken):
    pytest.importorskip("anywidget")
    with pytest.raises(InputError, match="taken exists already"):
        library.Viewer(photos, out=taken, device="cpu")


def test_what_is_no_run_is_not_resumed_with_a_capture(photos, taken, tmp_path, capsys):
    names = [f"{taken} is not a run"]
    refused(capsys, tmp_path, "train", photos, "--resume", "--out", taken, names=names)
    with pytest.raises(InputError, match="taken is not a run"):
        library.train(photos, out=taken, resume=True, device="cpu")
