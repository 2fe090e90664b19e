"""`scripts/compare_torch.py`: output, files, and errors."""

import json

import compare_torch
import mlx.core as mx
import pytest
from torch_peer.compare import compare

from nerfmac.config.presets import PRESETS
from tests.scene_factory import CONFIG, write_scene


@pytest.fixture(autouse=True)
def device_as_before():
    before = mx.default_device()
    yield
    mx.set_default_device(before)


def exit_code(*arguments):
    with pytest.raises(SystemExit) as end:
        compare_torch.main([str(argument) for argument in arguments])
    return end.value.code


def refused(capsys, tmp_path, *arguments, name):
    """Exit code 2 and one line before anything is trained; no file."""
    before = sorted(tmp_path.rglob("*"))
    assert exit_code("--device", "cpu", *arguments) == 2
    told = capsys.readouterr()
    assert told.out == ""
    (line,) = told.err.splitlines()
    assert name in line
    assert sorted(tmp_path.rglob("*")) == before


def test_without_pytorch_the_message_says_what_to_install(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(compare_torch, "find_spec", lambda _: None)
    refused(capsys, tmp_path, "--json", tmp_path / "c.json", name="pip install torch")


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (("--seconds", 0), "seconds is 0"),
        (("nowhere",), "nowhere does not exist"),
        (("--plot", "no/c.png"), "no/c.png cannot be written"),
    ],
)
def test_what_cannot_be_done_is_refused(capsys, tmp_path, monkeypatch, arguments, name):
    monkeypatch.setattr(compare_torch, "find_spec", lambda _: object())
    refused(capsys, tmp_path, *arguments, "--json", tmp_path / "c.json", name=name)


def test_a_scene_without_test_views_is_refused(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(compare_torch, "find_spec", lambda _: object())
    refused(capsys, tmp_path, write_scene(tmp_path / "balls", test=0), name="no 'test' views")


def test_the_comparison_is_shown_plotted_and_written(capsys, tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="PyTorch is not installed; `pip install torch`")
    monkeypatch.setattr("torch_peer.peer.processors", lambda: 1)
    monkeypatch.setitem(PRESETS, "tiny", CONFIG)
    monkeypatch.setitem(compare.__kwdefaults__, "compiled", False)
    files = ("--json", tmp_path / "c.json", "--plot", tmp_path / "c.png")
    compare_torch.main(
        [
            *("--device", "cpu", "--preset", "tiny", "--seconds", "0.5"),
            *(str(write_scene(tmp_path / "balls")), *map(str, files)),
        ]
    )
    values = json.loads((tmp_path / "c.json").read_text())
    assert values["seconds"] == 0.5
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")
    said = capsys.readouterr().out
    for name in ("nerfmac", "torch"):
        assert values[name]["curve"][-1]["seconds"] >= 0.5
        assert name in said
    assert "\ntraining step " in said
