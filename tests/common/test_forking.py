"""A worker that was forked after MLX had been used gets an error instead of waiting forever."""

import os
import signal
import subprocess
import sys
import textwrap

import pytest

from nerfmac.app.scenes import builtin_scene_path

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")

SCRIPT = """
import multiprocessing, sys
import mlx.core as mx, numpy as np, nerfmac
from nerfmac.app.scenes.orientation import project
from nerfmac.geometry import Lens

def work(answers):
    try:
        {work}
        answers.put("done")
    except nerfmac.InputError as error:
        answers.put(str(error))

{before}
answers = multiprocessing.get_context("fork").Queue()
worker = multiprocessing.get_context("fork").Process(target=work, args=(answers,), daemon=True)
worker.start()
print(answers.get())
"""
SCENE = f"nerfmac.load_scene({str(builtin_scene_path())!r}, max_images=2, downscale=8)"
WORK = {
    "train": f"nerfmac.train({SCENE}, 'tiny', nerfmac.Goal(steps=1), progress=False)",
    "views": f"{SCENE}.views('train')",
    "device": "nerfmac.choose_device('cpu')",
    "lens": "project(np.ones((3, 3)), np.eye(3, 4), Lens(9, 9, 9., 9., 4., 4., 0.1))",
}


def answer(work: str, before: str) -> str:
    """What a worker answers; a worker that waits forever ends this test with an error."""
    script = textwrap.dedent(SCRIPT).format(work=work, before=before)
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            return process.communicate(timeout=300)[0].strip()
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.parametrize("name", WORK)
def test_a_worker_that_was_forked_too_late_is_told_the_remedy(name):
    told = answer(WORK[name], f"{SCENE}.views('train')")
    assert told.startswith("this process was forked after MLX had been used")
    assert 'multiprocessing.get_context("spawn")' in told


@pytest.mark.parametrize("before", [f"scene = {SCENE}", "nerfmac.load_scene", ""])
def test_a_worker_that_was_forked_early_works(before):
    assert answer(WORK["views"], before) == "done"
