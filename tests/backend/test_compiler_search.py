"""Ctrl-C while MLX searches for a compiler, which receives it too."""

import os
import shutil
import signal
import subprocess
import sys
import time

SLOW = """#!/bin/sh
touch "{begun}"
until [ -e "{go_on}" ]; do sleep 0.05; done
exec {compiler} "$@"
"""
"""A compiler that announces a call and waits."""

PROGRAM = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
import mlx.core as mx
from nerfmac.backend import Traces, choose_device
choose_device("cpu")
traces = Traces()
double = traces.compiled(lambda a: (mx.sin(a) + a,), "double")
for _ in range(3):
    double(mx.ones(4))
print(traces.counts["double"], "trace")
"""


def test_ctrl_c_during_the_search_for_a_compiler_does_not_disable_compilation(tmp_path):
    begun, go_on, folder = tmp_path / "begun", tmp_path / "go_on", tmp_path / "bin"
    folder.mkdir()
    text = SLOW.format(begun=begun, go_on=go_on, compiler=shutil.which("g++"))
    (folder / "g++").write_text(text)
    (folder / "g++").chmod(0o755)
    running = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    while not begun.exists():
        assert running.poll() is None, running.communicate()
        time.sleep(0.01)
    os.killpg(running.pid, signal.SIGINT)
    go_on.touch()
    said, _ = running.communicate(timeout=120.0)
    assert said == "1 trace\n"
