"""`nerfmac info` describes a machine and starts no compiler."""

import subprocess

import pytest

from nerfmac.app.cli import info
from nerfmac.backend import build, extension, fallback
from nerfmac.backend.build import BuildError
from nerfmac.version import version
from tests.scene_factory import nerfmac


@pytest.fixture(autouse=True)
def no_compiler_runs(monkeypatch):
    version()  # calls git, once

    def refuse(*command, **_options):
        raise AssertionError(f"{command} was started")

    monkeypatch.setattr(build.subprocess, "run", refuse)
    monkeypatch.setattr(subprocess, "Popen", refuse)
    monkeypatch.setattr(fallback, "why_no_extension", refuse)


def test_kernels_for_a_cpu_are_named_and_not_built(capsys):
    assert nerfmac("info", "--device", "cpu") == 0
    shown = capsys.readouterr().out
    assert f"C++ compiler  {build.compiler()}" in shown
    assert "hash_encode             cpu kernel, built on first use" in shown


def test_what_kernels_lack_is_told(capsys, monkeypatch):
    def compiler():
        raise BuildError("no C++ compiler: try something")

    monkeypatch.setattr(info, "compiler", compiler)
    monkeypatch.setattr(extension, "compiler", compiler)
    assert nerfmac("info", "--device", "cpu") == 0
    shown = capsys.readouterr().out
    assert "C++ compiler  none (no C++ compiler: try something)" in shown
    assert "march                   reference (no C++ compiler: try something)" in shown
