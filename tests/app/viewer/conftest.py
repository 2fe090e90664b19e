"""A small trained run, and sessions on it that are driven a slice of work at a time."""

import io
from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest
from PIL import Image

from nerfmac import Goal, choose_device
from nerfmac.app.paths.view import View
from nerfmac.app.run import History, Run, Training, resume
from nerfmac.app.viewer.live_training import Preview
from nerfmac.app.viewer.loop import Loop
from nerfmac.app.viewer.session import Session
from tests.scene_factory import COARSE


@pytest.fixture(scope="session")
def small_run(scene):
    """A run on it after some steps; take a copy."""
    device = mx.default_device()
    choose_device("cpu")
    run = Run.begin(scene, COARSE)
    resume(run, Goal(steps=120), progress=False)
    mx.eval(run.state.arrays())
    yield run
    mx.set_default_device(device)


class Here:
    """Replacement for the worker that runs tasks immediately on this thread."""

    def wake(self, _activity):
        pass

    def submit(self, task):
        from concurrent.futures import Future

        future = Future()
        future.set_result(task())
        return future


class Page:
    """A session, and the messages that a page would have received from it."""

    def __init__(self, run: Run | Preview, out=None):
        self.messages, self.kept = [], []
        self.answers = True  # whether frames are acked
        self.place, self.name = None, "first"  # the page's view and name
        here, shown = Here(), run
        if isinstance(run, Run):
            shown = Training(replace(run, history=History(run.curve)), out)
        self.session = Session(here, shown, self.hear)
        self.loop = Loop(here, self.session, self.kept.append)

    def hear(self, message, buffers):
        self.messages.append((message, buffers))
        if message["kind"] == "frame" and self.answers:
            self.say("ack", id=message["id"])
        if message["kind"] == "go":
            view = message["view"]
            pose = np.reshape(view["pose"], (3, 4))
            self.place = View(pose, np.array(view["center"]), np.array(view["up"]), view["fov"])
            more = {"compared": message["compared"]} if "compared" in message else {}
            self.move("went", moving=message["moving"], **more)

    def open(self, width=48, height=32, page="first", *, warps=False):
        self.name = page
        self.say("ready", width=width, height=height, warps=warps)
        return self

    @property
    def kernel(self):
        """What the kernel knows of the page."""
        return self.session.pages[self.name]

    def state(self):
        """The state as the kernel would send it now."""
        return self.session.status(self.kernel)

    @property
    def screen(self):
        return self.kernel.screen

    def turn(self, right=0.03, down=-0.01, *, moving=True, **content):
        """Send a message that the page has moved its current view."""
        place = self.place or self.session.view
        x, y, z = place.pose[:, 3] + 0.3 * (right * place.pose[:, 0] + down * place.pose[:, 1])
        self.place = replace(place, pose=np.c_[place.pose[:, :3], [x, y, z]])
        return self.move("move", moving=moving, **content)

    def move(self, kind, **content):
        view = self.place.to_json()
        moved = {name: view[name] for name in ("pose", "center", "fov")}
        return self.say(kind, **moved, **content)

    def say(self, kind, **content):
        self.loop.post({"kind": kind, "page": self.name, **content})
        return self

    def work(self, count=1):
        for _ in range(count):
            self.loop.work()

    def settle(self):
        """Work until there is nothing left to do at once."""
        for _ in range(2000):
            pause = self.loop.work()
            if pause is None or pause > 0.0:
                return self
        raise AssertionError("it does not come to rest")

    def take(self, kind):
        """The messages of a kind since the last call, and drop all others."""
        taken = [message for message, _ in self.messages if message["kind"] == kind]
        self.messages.clear()
        return taken

    def images(self):
        """The frames so far, as (message, uint8 (h, w, 3))."""
        return [
            (message, np.asarray(Image.open(io.BytesIO(buffers[0]))))
            for message, buffers in self.messages
            if message["kind"] == "frame"
        ]

    @property
    def notice(self):
        return self.session.notice


@pytest.fixture
def page(small_run):
    """A page that has not opened yet."""
    return Page(small_run)
