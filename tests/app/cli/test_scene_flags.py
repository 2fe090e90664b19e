"""Scene flags and ranks on the command line."""

import json
import signal
import subprocess
import sys
import time

from local_ranks import start_local

from nerfmac import Run
from tests.scene_factory import FLAGS

PATIENCE = 300.0  # maximum waiting time in seconds for a state of the ranks


def started(balls, folder, *flags):
    words = ("train", balls, *FLAGS, *flags, "--out", folder / "run", "--no-video")
    command = [sys.executable, "-m", "nerfmac", *map(str, words)]
    caught = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return start_local(command, 2, folder, **caught)


def told_by(processes):
    return [each.communicate(timeout=PATIENCE) for each in processes]


def test_a_lost_rank_ends_the_others_with_one_message_and_a_checkpoint(
    balls, tmp_path, monkeypatch
):
    # Where MLX does not notice, the other waits so long. It is longer than anything before takes.
    monkeypatch.setenv("NERFMAC_RANK_TIMEOUT", "40")
    processes = first, second = started(balls, tmp_path, "--steps", 100000)
    try:
        said, begin = "", time.monotonic()
        while " dB" not in said:
            assert time.monotonic() - begin < PATIENCE, said
            more = first.stderr.read(1)
            assert more, f"the first ended: {said}\nand the second: {second.communicate()}"
            said += more
        second.send_signal(signal.SIGKILL)
        _, rest = first.communicate(timeout=PATIENCE)
    finally:
        for each in processes:
            each.kill()
            each.wait()
            each.stderr.close()
            each.stdout.close()
    assert first.returncode == 2
    (message,) = [line for line in rest.splitlines() if line.startswith("nerfmac: ")]
    assert "another rank has failed, as detected by rank 0 of 2, by ring: " in message
    assert "Traceback" not in rest
    step = Run.load(tmp_path / "run").state.step
    assert step > 0
    assert f"step {step} is saved in {tmp_path / 'run'}" in message


def test_one_rank_writes_and_speaks_for_all(balls, tmp_path):
    processes = started(balls, tmp_path, "--steps", 20)
    (out, _), (silent_out, silent_errors) = told_by(processes)
    assert [each.returncode for each in processes] == [0, 0]
    assert f"{tmp_path / 'run'}: 20 steps" in out
    assert silent_out == silent_errors == ""
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert metrics["ranks"] == 2
    assert metrics["steps"] == 20
    assert len(list(tmp_path.glob("**/config.json"))) == 1
