"""`Viewer` as a notebook uses it, without a page: every method, and nothing left behind."""

import gc
import json
import subprocess
import sys
import threading
import time
import weakref

import numpy as np
import pytest

import nerfmac
from nerfmac import DivergedError, InputError, Run
from tests.conftest import ROOT, daily_but
from tests.decoding import decoded
from tests.scene_factory import COARSE

pytest.importorskip("anywidget", reason="needs the extra 'notebook'")

SETTINGS = {"config": COARSE}


@pytest.fixture
def told(monkeypatch):
    """Record the messages from viewers to their pages."""
    messages = []
    monkeypatch.setattr(
        "nerfmac.app.viewer.widget.Viewer.send",
        lambda _viewer, content, buffers=None: messages.append((content, buffers)),
    )
    return messages


@pytest.fixture
def viewer(scene, told):
    made = nerfmac.Viewer(scene, **SETTINGS)
    yield made
    made.close()


def wait_for(is_true):
    """Wait until a function is true; a minute at most."""
    end = time.monotonic() + 60.0
    while not is_true():
        assert time.monotonic() < end, "it has not come true"
        time.sleep(0.01)


WITHOUT = """
import sys

sys.modules.update(anywidget=None, ipywidgets=None)  # as if they were not installed
import pydoc
import nerfmac
from nerfmac import *

assert hasattr(nerfmac, "Viewer") and "Viewer" in dir(nerfmac)
assert "jupyterlab>=4.2" in pydoc.render_doc(nerfmac)
try:
    Viewer("scene", "tiny")
except ModuleNotFoundError as error:
    print(error.name, error)
"""


def test_without_the_notebooks_packages_all_else_works_and_viewer_says_what_to_install():
    command = [sys.executable, "-c", WITHOUT]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    assert line.startswith("anywidget ")
    assert "jupyterlab>=4.2" in line


def test_what_is_trained_can_be_paused_rendered_and_evaluated_meanwhile(viewer):
    viewer.train()
    first = viewer.run
    camera = first.orbit(3, (20, 16))[0]
    before = first.render(camera).color
    wait_for(lambda: viewer.run.state.step > first.state.step + 20)
    assert np.array_equal(first.render(camera).color, before)
    assert not np.allclose(viewer.run.render(camera).color, before, atol=0.02)
    assert not viewer.wait(0.0)  # it is still trained
    viewer.pause()
    assert viewer.wait(60.0)
    measured = viewer.run.evaluate("test", progress=False)
    assert [len(measured), viewer.run.state.step] == [2, viewer._session.run.state.step]


def test_a_run_and_its_folder_are_shown_and_trained_on(small_run, told, tmp_path):
    small_run.save(tmp_path / "run")
    for source in (small_run, tmp_path / "run", str(tmp_path / "run")):
        viewer = nerfmac.Viewer(source)
        assert viewer.run.state.step == 120
        viewer.train(steps=125)
        assert viewer.wait(60.0)
        assert viewer.run.state.step == 125
        viewer.close()
    assert small_run.state.step == 120


def test_a_scenes_path_is_read_and_the_run_kept_in_a_folder(scene, told, tmp_path):
    viewer = nerfmac.Viewer(scene.path, out=tmp_path / "run", **SETTINGS)
    viewer.train(steps=20)
    assert viewer.wait(60.0)
    viewer.close()
    assert Run.load(tmp_path / "run").state.step == 20
    with pytest.raises(InputError, match="exists already"):
        nerfmac.Viewer(scene.path, out=tmp_path / "run", **SETTINGS)


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    ("source", "settings", "words"),
    [("nowhere", {}, "nowhere does not exist"), (None, {"config": "huge"}, "preset is 'huge'")],
)
def test_a_viewer_of_nothing_is_refused_and_leaves_nothing(scene, told, source, settings, words):
    from nerfmac.app.viewer.worker import the_worker

    before = dict(the_worker()._due)
    with pytest.raises(InputError, match=words):
        nerfmac.Viewer(source or scene, **settings)
    gc.collect()
    assert the_worker()._due == before


def test_a_video_is_made_of_what_is_seen(viewer, told, tmp_path):
    viewer.train(steps=30)
    viewer.wait(60.0)
    path = viewer.render_video(
        tmp_path / "video.mp4", seconds=0.5, fps=8, size=(33, 20), progress=False
    )
    _, frames = decoded(path)
    assert frames.shape == (4, 20, 32, 3)
    assert np.abs(np.diff(frames.astype(float), axis=0)).mean() > 1.0
    ((_, buffers),) = [each for each in told if each[0]["kind"] == "video"]
    assert buffers == [path.read_bytes()]
    with pytest.raises(InputError, match=r"file extension must be \.mp4"):
        viewer.render_video(tmp_path / "video.gif", progress=False)


def test_what_ends_training_is_raised_to_who_waits(viewer, monkeypatch):
    def diverge(_trainer, state, _goal):
        raise DivergedError("the loss is nan at step 7")
        yield state

    monkeypatch.setattr("nerfmac.training.trainer.Trainer.train", diverge)
    viewer.train(steps=9)
    with pytest.raises(DivergedError, match="step 7"):
        viewer.wait(60.0)


def test_a_closed_viewer_and_all_it_held_are_gone(scene, told):
    from ipywidgets.widgets.widget import _instances as widgets  # each that is open

    threads, others = {*threading.enumerate()}, {*widgets}
    viewer = nerfmac.Viewer(scene, **SETTINGS)
    assert len({*widgets} - others) == 2  # with its layout
    viewer._loop.post({"kind": "ready", "page": "a", "width": 32, "height": 24})
    viewer.train(steps=20)
    viewer.wait(60.0)
    session = weakref.ref(viewer._session)
    viewer.close()
    del viewer
    gc.collect()
    assert session() is None
    assert {*widgets} == others
    left = {thread.name for thread in {*threading.enumerate()} - threads}
    assert left <= {"nerfmac", "tqdm_monitor"}, "the worker and the bars' stay, one of each"


@pytest.mark.parametrize("last", daily_but(["", "viewer.wait(60.0)", "viewer.close()"], ""))
def test_a_process_may_end_at_any_time(scene, last):
    code = f"""
import json, time, nerfmac
from nerfmac.config import Config
config = Config.from_json(json.loads({json.dumps(COARSE.to_json())!r}))
viewer = nerfmac.Viewer({str(scene.path)!r}, config=config)
viewer.train(steps={30 if "wait" in last else 10**6})
while viewer._session.run.state.step < 5:
    time.sleep(0.01)
{last}
"""
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, cwd=ROOT
    )
    assert (ended.returncode, ended.stderr) == (0, "")


def test_seconds_are_added_to_those_of_before_and_steps_already_had_are_refused(viewer):
    viewer.train(seconds=0.2)
    assert viewer.wait(60.0)
    before = viewer.run.state
    viewer.train(seconds=0.2)
    assert viewer.wait(60.0)
    after = viewer.run.state
    assert after.step > before.step
    assert after.train_seconds >= before.train_seconds + 0.2
    viewer.train()
    with pytest.raises(InputError, match="the total at which training stops"):
        viewer.train(steps=1)
    wait_for(lambda: viewer.run.state.step > after.step + 5)
    viewer.pause()
