"""An interrupted run is saved and can be resumed with the same result."""

import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from nerfmac.app.run import Run
from tests.scene_factory import FLAGS, nerfmac

STEPS = 400  # a run is resumed to as many: its learning rate follows from them
PATIENCE = 30.0  # maximum waiting time in seconds for a state of the run


@pytest.fixture(scope="module")
def whole(balls, tmp_path_factory):
    """The last state of a run that nothing interrupted."""
    out = tmp_path_factory.mktemp("runs") / "whole"
    assert nerfmac("train", balls, *FLAGS, "--steps", STEPS, "--out", out, "--no-video") == 0
    return Run.load(out).state


def started(balls, out, *flags, before=()):
    command = [*before, sys.executable, "-m", "nerfmac", "train", balls, *FLAGS, *flags]
    words = [str(word) for word in (*command, "--out", out, "--no-video")]
    # A test suite started in the background ignores Ctrl-C, and child processes inherit this. The
    # default handler is restored as in a terminal, unless a test changes it.
    old = None if before else signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    finally:
        if old is not None:
            signal.signal(signal.SIGINT, old)


def interrupted(process, stop):
    """Send the signal `stop` once the bar counts steps; return the exit code and stderr."""
    told, begin = "", time.monotonic()
    try:
        while " dB" not in told:
            assert time.monotonic() - begin < PATIENCE, told
            told += process.stderr.read(1)
        process.send_signal(stop)
        _, rest = process.communicate(timeout=PATIENCE)
        return process.returncode, told + rest
    finally:
        process.kill()


def test_an_interrupted_run_is_saved_and_resumed_to_the_same_bits(balls, whole, tmp_path):
    out = tmp_path / "run"
    code, told = interrupted(started(balls, out, "--steps", STEPS), signal.SIGINT)
    assert code == 130
    assert "Traceback" not in told
    assert f"is saved in {out}; run `nerfmac train --out {out} --resume --steps {STEPS}`" in told
    *_, line = told.splitlines()
    assert line.startswith("nerfmac: interrupted; step ")
    names = {path.name for path in out.iterdir()}
    assert names == {"config.json", "scene.json", "checkpoint.safetensors", "scalars.jsonl"}
    assert 0 < Run.load(out).state.step < STEPS

    resumed = ("train", "--resume", "--out", out, "--steps", STEPS, "--device", "cpu")
    assert nerfmac(*resumed, "--no-video") == 0
    state = Run.load(out).state
    assert state.step == whole.step == STEPS
    for name, values in whole.arrays().items():
        same = np.array(values).tobytes() == np.array(state.arrays()[name]).tobytes()
        assert same, f"{name} differs"


def with_handler(name, handler):
    """Return a command that sets the handler of a signal, and then runs the rest of its line."""
    handled = f"import os, signal, sys; signal.signal(signal.{name}, signal.{handler}); "
    return sys.executable, "-c", handled + "os.execv(sys.argv[1], sys.argv[1:])"


@pytest.mark.parametrize(
    ("handler", "stop"),
    [
        (("SIGINT", "SIG_IGN"), signal.SIGTERM),  # as shells start background jobs
        (("SIGHUP", "SIG_DFL"), signal.SIGHUP),  # The tests themselves may run with nohup.
    ],
)
def test_a_run_that_is_terminated_or_whose_terminal_is_closed_is_saved(
    balls, tmp_path, handler, stop
):
    before = with_handler(*handler)
    code, _ = interrupted(started(balls, tmp_path, "--seconds", 60, before=before), stop)
    assert code == 130
    assert Run.load(tmp_path).state.step > 0


def test_a_run_with_nohup_goes_on_after_its_terminal_is_closed(balls, tmp_path):
    process = started(balls, tmp_path / "kept", "--steps", STEPS, before=("nohup",))
    code, _ = interrupted(process, signal.SIGHUP)
    assert code == 0
    assert Run.load(tmp_path / "kept").state.step == STEPS


def test_a_run_that_diverges_keeps_its_last_good_state(balls, tmp_path, capsys):
    out = tmp_path / "run"
    flags = (*FLAGS, "--steps", 50, "--optimizer.rate", "1e14")
    assert nerfmac("train", balls, *flags, "--out", out, "--no-video") == 2
    *_, line = capsys.readouterr().err.splitlines()
    assert line.startswith("nerfmac: ")
    assert "not finite" in line or "the loss is" in line
    assert f"the last good state is in {out}" in line
    state = Run.load(out).state
    assert state.step < 50
    for name, values in state.arrays().items():
        assert np.isfinite(np.array(values)).all(), f"{name} is not finite"
