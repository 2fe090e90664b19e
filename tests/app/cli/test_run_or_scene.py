"""Errors if a run is given instead of a scene, or a scene instead of a run."""

import pytest

import nerfmac
from tests.app.cli.refusals import refused


@pytest.fixture
def with_preview(run, monkeypatch, tmp_path):
    """A run with images and a separate video, in the working folder."""
    monkeypatch.chdir(tmp_path)
    (run / "preview.png").write_bytes((nerfmac.builtin_scene_path() / "test/r_0.png").read_bytes())
    (run / "video.mp4").write_bytes(b"video")
    return run


@pytest.mark.parametrize("command", ["train", "inspect", "capture"])
def test_a_run_is_not_taken_for_photos(capsys, tmp_path, with_preview, command):
    names = [f"{with_preview} is a run", f"nerfmac train --out {with_preview} --resume"]
    refused(capsys, tmp_path, command, with_preview, names=names)


def test_a_run_is_no_scene_in_a_notebook(with_preview, tmp_path):
    before = set(tmp_path.rglob("*"))
    for read in (nerfmac.load_scene, nerfmac.train, nerfmac.capture_scene):
        with pytest.raises(nerfmac.InputError, match=f"{with_preview} is a run"):
            read(with_preview)
    assert set(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("command", ["render", "export", "resume"])
def test_a_scene_is_no_run(capsys, tmp_path, scene, command):
    arguments = {
        "resume": ("train", "--resume", "--out", scene),
        "export": ("export", scene, tmp_path / "mesh.ply"),
    }.get(command, (command, scene))
    names = [f"{scene} is a scene", f"nerfmac train {scene}"]
    refused(capsys, tmp_path, *arguments, names=names)
