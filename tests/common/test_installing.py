"""Advice to install something fits the environment; a Mac without packages of MLX is told why."""

import platform

import pytest

from nerfmac.common import installing, why_no_mlx

MISSING = ModuleNotFoundError("No module named 'mlx'")


def on_a_mac(monkeypatch, processor, version, *, translated=False):
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    monkeypatch.setattr(platform, "machine", lambda: processor)
    monkeypatch.setattr(platform, "mac_ver", lambda: (version, ("", "", ""), processor))
    monkeypatch.setattr(installing, "_is_translated", lambda: translated)


@pytest.mark.parametrize(
    ("processor", "version", "translated", "told"),
    [
        ("x86_64", "15.1", True, "with Rosetta; MLX needs a Python for Apple silicon"),
        ("x86_64", "13.6", False, "needs a Mac with Apple silicon"),
        ("arm64", "13.7.1", False, "needs macOS 14 or newer, but this is macOS 13.7.1"),
    ],
)
def test_a_mac_without_mlx_is_told_why(monkeypatch, processor, version, translated, told):
    on_a_mac(monkeypatch, processor, version, translated=translated)
    assert told in why_no_mlx(MISSING)
    assert "\n" not in why_no_mlx(MISSING)


def test_rosetta_is_asked_of_the_system(monkeypatch, tmp_path):
    for answer in ("1", "0"):
        (tmp_path / "sysctl").write_text(f"#!/bin/sh\necho {answer}\n")
        (tmp_path / "sysctl").chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path))
        assert installing._is_translated() == (answer == "1")
    (tmp_path / "sysctl").unlink()
    assert not installing._is_translated()
