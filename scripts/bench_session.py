"""Measure the viewer without Jupyter and a browser, with a simulated page.

    python scripts/bench_session.py RUN [--device DEVICE] [--size WxH] [--seconds S] [--json FILE]

The simulated page acknowledges every image immediately. The camera is moved 120 times per second.
For each mode, the table shows the images per second and the latency from a move to its image. If
the images of the run are available, the mode `color` is also measured during training. The script
requires only nerfmac.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from nerfmac.app.run import Run, Training
from nerfmac.app.viewer.loop import Loop
from nerfmac.app.viewer.open_page import Message
from nerfmac.app.viewer.session import Session
from nerfmac.app.viewer.settings import OUTPUT_OF_MODE
from nerfmac.app.viewer.worker import Worker
from nerfmac.backend import choose_device, device_name


class Page:
    """Simulated viewer page that acknowledges every image and records its arrival time."""

    def __init__(self, worker: Worker, folder: Path, size: tuple[int, int], *, warps: bool) -> None:
        self.frames: list[tuple[float, Message]] = []
        opened = worker.submit(lambda: Session(worker, Training(Run.load(folder)), self.hear))
        self.session = opened.result()
        self.loop = worker.submit(lambda: Loop(worker, self.session, lambda _: None)).result()
        worker.add(self.loop)
        self.view, self.start = self.session.view, time.monotonic()
        self.say("ready", width=size[0], height=size[1], warps=warps)

    def hear(self, message: Message, _buffers: list[bytes]) -> None:
        """Receive a message from the session. The session uses this method as `send`."""
        if message["kind"] == "frame":
            self.frames.append((time.monotonic(), message))
            self.say("ack", id=message["id"])

    def say(self, kind: str, **content: Any) -> None:
        """Send a message to the session."""
        self.loop.post({"kind": kind, "page": "bench", **content})

    def place(self, seconds: float) -> dict[str, Any]:
        """Return the camera, which circles around the center in 4 seconds, as in a `move`."""
        angle, center = 0.5 * np.pi * seconds, self.view.center
        cos, sin = np.cos(angle), np.sin(angle)
        x, y, z = self.view.up
        skew = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
        turn = np.eye(3) + sin * skew + (1.0 - cos) * skew @ skew
        eye = center + turn @ (self.view.pose[:, 3] - center)
        pose = np.c_[turn @ self.view.pose[:, :3], eye]
        return {"pose": pose.ravel().tolist(), "center": center.tolist(), "fov": self.view.fov}

    def drag(self, seconds: float) -> dict[str, float]:
        """Move the camera for `seconds` seconds, and return rates, latencies, and resolution."""
        self.frames.clear()
        begin = time.monotonic()
        while (now := time.monotonic()) < begin + seconds:
            self.say("move", t=1000.0 * now, moving=True, **self.place(now - self.start))
            time.sleep(1 / 120)
        while not (frames := [frame for frame in self.frames if frame[1]["t"] is not None]):
            time.sleep(1 / 120)  # A slow machine may draw no image in the given time.
        latencies = [1000.0 * arrival - frame["t"] for arrival, frame in frames]
        scales = [frame["scale"] for _, frame in frames]
        return {
            "images a second": len(frames) / seconds,
            "median latency, ms": float(np.median(latencies)),
            "95th percentile of it, ms": float(np.percentile(latencies, 95)),
            "resolution": float(np.median(scales)),
        }


def main() -> None:
    """Measure and print the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, help="folder of a run")
    parser.add_argument("--device", default="auto", help="auto, metal, cuda or cpu")
    parser.add_argument("--size", default="1280x720", help="pixels of the page's image")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each drag")
    parser.add_argument("--warps", action="store_true", help="images as a page that warps gets")
    parser.add_argument("--json", type=Path, help="a file for the figures")
    given = parser.parse_args()
    choose_device(given.device)
    width, height = map(int, given.size.split("x"))
    worker = Worker()
    page = Page(worker, given.run, (width, height), warps=given.warps)
    figures = {}
    for mode in OUTPUT_OF_MODE:
        page.say("set", values={"mode": mode})
        page.drag(1.0)  # warms up: compiles for sizes not drawn before
        figures[mode] = page.drag(given.seconds)
    page.say("set", values={"mode": "color"})
    if worker.submit(page.session.training.status).result()["can_train"]:
        page.say("train")
        while page.session.training.message or not page.session.training.is_running:
            time.sleep(0.05)
        page.drag(1.0)
        figures["color, in training"] = page.drag(given.seconds)
    worker.remove(page.loop, page.session.training.pause)
    worker.end()
    print(f"{device_name()}, {width}x{height}")
    for name, values in figures.items():
        told = ", ".join(f"{key} {value:.3g}" for key, value in values.items())
        print(f"{name:20} {told}")
    if given.json:
        given.json.write_text(json.dumps({"device": device_name(), **figures}, indent=1))


if __name__ == "__main__":
    main()
