"""Interruptions are heard in time, and long use leaves nothing."""

import os
import signal
import subprocess
import sys

import pytest
import soak

from nerfmac import Goal, Run, train
from nerfmac.app.capture import colmap_process
from nerfmac.app.video.encoding import read_png
from nerfmac.training.clock import Clock, note_continued
from tests.scene_factory import CONFIG, FLAGS

pytestmark = pytest.mark.slow

PATIENCE = 30.0  # seconds; what hangs waits twice as long

SLOW_SAVE = """import sys, time
from nerfmac.app.run import run
save, saves = run.save_checkpoint, []
def slow(*arguments):
    if saves:
        print("saving", flush=True)
        time.sleep(60)
    saves.append(save(*arguments))
run.save_checkpoint = slow
from nerfmac.app.cli import main
main(sys.argv[1:])"""

SLOW_FRAMES = """import sys, time
from nerfmac.app.video import encoding
save = encoding.Image.Image.save
def slow(*arguments, **options):
    print("saving", flush=True)
    time.sleep(0.3)
    save(*arguments, **options)
encoding.Image.Image.save = slow
from nerfmac.app.cli import main
main(sys.argv[1:])"""


def started(code, *words):
    """Start `nerfmac` by `code` with Ctrl-C as from a terminal; return at its first output."""
    old = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        process = subprocess.Popen(
            [sys.executable, "-c", code, *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    finally:
        signal.signal(signal.SIGINT, old)
    return process


def ended(process, stop):
    """Send `stop` to a process that is `saving`; return its exit code and last line."""
    try:
        assert process.stdout.readline() == "saving\n"
        process.send_signal(stop)
        _, told = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert "Traceback" not in told
    return process.returncode, told.splitlines()[-1]


def test_a_second_interruption_ends_at_once_and_names_what_is_saved(balls, tmp_path):
    out = tmp_path / "run"
    process = started(SLOW_SAVE, "train", balls, *FLAGS, "--steps", 60, "--no-video", "--out", out)
    code, line = ended(process, signal.SIGINT)
    assert code == 130
    assert f"step 0 is saved in {out}" in line
    assert Run.load(out).state.step == 0


def test_a_terminated_video_leaves_whole_frames_alone(balls, scene, tmp_path):
    train(scene, config=CONFIG, goal=Goal(steps=5), out=tmp_path / "run", progress=False)
    out = tmp_path / "frames"
    words = ("render", tmp_path / "run", "--frames", 60, "--device", "cpu", "--out", out)
    code, line = ended(started(SLOW_FRAMES, *words), signal.SIGTERM)
    assert code == 130
    assert line.startswith(f"nerfmac: interrupted; the frames so far are in {out}")
    frames = {path.name for path in out.iterdir()} - {"series.json"}
    assert len(frames) < 60
    assert all(read_png(out / frame).shape == (16, 20, 3) for frame in frames)


def test_a_stage_of_a_capture_ends_with_its_parent(tmp_path):
    command = [sys.executable, "-P", colmap_process.__file__, "features", str(tmp_path)]
    os.mkfifo(tmp_path / "plan.json")  # it would wait for its plan
    pipes = {"stdin": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, **pipes) as process:
        process.stdin.close()
        try:
            assert process.wait(PATIENCE) == 1
        finally:
            process.kill()


def test_time_in_which_the_process_is_stopped_is_not_training_time(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("nerfmac.training.clock.time.perf_counter", lambda: now[0])
    clock = Clock(7.0)
    now[0] += 2.0
    assert clock.read() == 9.0
    now[0] += 3600.0
    note_continued(signal.SIGCONT, None)
    assert clock.read() == 9.0
    now[0] += 0.5
    assert (clock.read(), clock.lap()) == (9.5, 2.5)
    note_continued(signal.SIGCONT, None)  # between two reports
    clock.go_on()
    now[0] += 1.0
    assert clock.read() == 10.5


MOST = 20.0  # allowed memory growth in MB: a kernel, a longer list; not something at each step
COUNTS = {"train": 300, "viewers": 4}


@pytest.mark.parametrize("part", ["train", pytest.param("viewers", marks=pytest.mark.daily)])
def test_nothing_is_left(part):
    row = soak.in_a_process(part, COUNTS[part], seed=0)
    assert 0.8 * COUNTS[part] < row.units <= COUNTS[part]
    assert (row.threads, row.processes, row.files) == (0, 0, 0)
    if COUNTS[part] >= 50:  # with fewer, the memory of the first one dominates
        assert row.slope * row.units / 1000.0 < MOST
