"""`nerfmac eval` reports the settings and the worst views, and writes only complete files."""

import json

import pytest

from tests.app.cli.refusals import refused
from tests.scene_factory import HEIGHT, WIDTH, nerfmac, write_scene


def test_the_json_says_how_its_figures_were_measured(run, tmp_path):
    file = tmp_path / "figures.json"
    assert nerfmac("eval", run, "--split", "train", "--background", "black", "--json", file) == 0
    told = json.loads(file.read_text())
    protocol = told["protocol"]
    assert (protocol["split"], protocol["background"]) == ("train", "black")
    assert (protocol["size"], protocol["train_views"]) == ([WIDTH, HEIGHT], 3)
    assert (protocol["steps"], protocol["blend"]) == (2, "srgb")
    assert "mean of the PSNR of all views" in protocol["psnr"]
    assert "11x11" in protocol["ssim"]
    assert protocol["lpips"].startswith("not computed")


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
    other = write_scene(tmp_path / "other", train=4)
    assert nerfmac("eval", run, "--scene", other) == 2
    assert "other views of" in capsys.readouterr().err


def test_a_page_is_written_and_changes_no_figure(run, tmp_path, capsys):
    assert nerfmac("eval", run) == 0
    told = capsys.readouterr().out
    assert nerfmac("eval", run, "--html", tmp_path / "views.html") == 0
    assert capsys.readouterr().out == told
    assert (tmp_path / "views.html").read_text().count("<section") == 2


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        (("--html", "page.pdf"), ["cannot write a page to 'page.pdf'"]),
        (("--html", "no/page.html"), ["no/page.html cannot be written"]),
        (("--json", "no/figures.json"), ["no/figures.json cannot be written"]),
        (("--json", "figures.json", "--html", "page.pdf"), ["cannot write a page to 'page.pdf'"]),
        (("--split", "val", "--html", "page.html"), ["no 'val' views"]),
        (("--background", "gray"), ["--background is 'gray'; expected one of: white, black"]),
    ],
)
def test_what_cannot_be_done_is_refused(capsys, tmp_path, run, monkeypatch, flags, names):
    monkeypatch.chdir(tmp_path)
    refused(capsys, tmp_path, "eval", run, *flags, names=names)
