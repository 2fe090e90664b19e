"""A Mac does not sleep during long computations. A program stands in for `caffeinate`."""

import os
import subprocess
from types import SimpleNamespace

import pytest

from nerfmac import Goal
from nerfmac.app.run import Run, Training
from nerfmac.common.awake import awake
from tests.scene_factory import CONFIG
from tests.stand_ins import write_programs


def pretend(monkeypatch, system):
    monkeypatch.setattr("nerfmac.common.awake.platform", SimpleNamespace(system=lambda: system))


@pytest.fixture
def assertions(tmp_path, monkeypatch):
    """A function that returns the arguments of each `caffeinate` so far, and whether it runs."""
    folder = write_programs(tmp_path, {"caffeinate": "#!/bin/sh\nexec sleep 1000\n"})
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    pretend(monkeypatch, "Darwin")
    started, start = [], subprocess.Popen

    def logged(words, **options):
        process = start(words, **options)
        if words[0] == "caffeinate":  # others ask the compiler for its version
            started.append((words, process))
        return process

    monkeypatch.setattr("nerfmac.common.awake.subprocess.Popen", logged)
    yield lambda: [(words, process.poll() is None) for words, process in started]
    for _, process in started:
        process.kill()


EXPECTED = ["caffeinate", "-i", "-w", str(os.getpid())]


def test_an_assertion_is_held_until_the_end(assertions):
    with awake():
        assert assertions() == [(EXPECTED, True)]
    assert assertions() == [(EXPECTED, False)]
    with pytest.raises(KeyboardInterrupt), awake():
        raise KeyboardInterrupt
    assert assertions() == 2 * [(EXPECTED, False)]


@pytest.mark.usefixtures("on_the_cpu")
def test_training_holds_an_assertion_while_it_runs(scene, assertions):
    reports = Training(Run.begin(scene, CONFIG)).fit(Goal())
    next(reports)
    assert assertions() == [(EXPECTED, True)]
    reports.close()  # as the viewer does if the user pauses the training
    assert assertions() == [(EXPECTED, False)]
