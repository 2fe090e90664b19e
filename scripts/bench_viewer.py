"""Measure the viewer in JupyterLab and a browser while a mouse drags it.

    python scripts/bench_viewer.py [RUN] [--drags N] [--network MS] [--no-webgl] [--json FILE]

RUN is a run folder; by default the built-in scene is trained for 30 s first. Server, kernel, and
browser run on this machine, and Chromium renders in software. The images on the page during a drag
are compared with the true view, rendered in full afterwards from the pose that the pointer
requested. The script requires the extra `notebook`, Playwright, and Chromium
(scripts/install_chromium.sh).
"""

from __future__ import annotations

import argparse
import base64
import io
import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import websocket
from PIL import Image
from slow_network import delayed

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from nerfmac.app.paths import Keyframe  # noqa: E402
from nerfmac.app.run import Run  # noqa: E402
from nerfmac.app.viewer.images import Images  # noqa: E402
from nerfmac.app.viewer.session import Settings  # noqa: E402
from nerfmac.backend import device_name  # noqa: E402
from nerfmac.common.checks import InputError  # noqa: E402
from nerfmac.rendering.metrics import psnr  # noqa: E402
from tests.app.viewer.notebook.browser import running_chromium  # noqa: E402
from tests.app.viewer.notebook.desk import Desk, at_desk  # noqa: E402
from tests.app.viewer.notebook.lab import Lab, free_port  # noqa: E402
from tests.app.viewer.notebook.tab import Tab  # noqa: E402

SHOWN = "() => document.querySelector('.nerfmac-viewer')?.nerfmac"
IMAGE = ".nerfmac-image"
DRAG = (240, 60)  # CSS pixels
SECONDS = 3.0
"""Duration of a drag in seconds."""
MOVES = 60
"""Number of mouse moves per second. The moves are sent to the browser without waiting for its
response."""

RECORD = """(interval) => {
  const root = document.querySelector(".nerfmac-viewer");
  const { nerfmac } = root;
  const [frame, warp] = ["frame", "warp"].map((name) => root.querySelector(`.nerfmac-${name}`));
  const gl = warp.getContext("webgl2");
  const kept = [];
  const finished = [];
  let isWanted = false;
  const keep = () => {
    isWanted = false;
    const copy = new OffscreenCanvas(frame.width, frame.height);
    copy.getContext("2d").drawImage(warp.hidden ? frame : warp, 0, 0, copy.width, copy.height);
    kept.push({ copy, view: nerfmac.view });
  };
  const drawn = () => {
    if (isWanted) keep();
    if (warp.hidden || nerfmac.answered.at(-1) !== nerfmac.frames.at(-1)) return;
    const event = nerfmac.answered.at(-1) - nerfmac.latencies.at(-1);
    const fence = gl.fenceSync(gl.SYNC_GPU_COMMANDS_COMPLETE, 0);
    const wait = () => {
      const state = gl.getSyncParameter(fence, gl.SYNC_STATUS);
      if (state === gl.SIGNALED) finished.push(performance.now() - event);
      else setTimeout(wait, 1);
    };
    setTimeout(wait, 0);
  };
  const timer = setInterval(() => {
    isWanted = nerfmac.view !== null;
    if (isWanted && warp.hidden) keep();
  }, interval);
  frame.addEventListener("drawn", drawn);
  window.stopKeeping = () => {
    clearInterval(timer);
    frame.removeEventListener("drawn", drawn);
    return { kept, finished };
  };
}"""
"""JavaScript function that records the image on the page and the requested view at intervals, and
the delay between a pointer event and the end of the warp on the GPU."""

RECORDED = """async () => {
  const { kept, finished } = window.stopKeeping();
  const images = await Promise.all(kept.map(async ({ copy, view }) => {
    const bytes = new Uint8Array(await (await copy.convertToBlob()).arrayBuffer());
    let text = "";
    for (const byte of bytes) text += String.fromCharCode(byte);
    return { png: btoa(text), pose: view.pose, fov: view.fov };
  }));
  return { images, finished };
}"""
NO_WEBGL = """
  const getContext = HTMLCanvasElement.prototype.getContext;
  HTMLCanvasElement.prototype.getContext = function (kind, ...rest) {
    return kind === "webgl2" ? null : getContext.call(this, kind, ...rest);
  };
"""
INTERVAL = 300.0
"""Time in milliseconds between two images that are stored for the comparison."""


def main() -> None:
    """Measure and print the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, nargs="?", help="folder of a run")
    parser.add_argument("--drags", type=int, default=7, help="number of drags for each figure")
    parser.add_argument("--network", type=float, default=0.0, help="delay each way, milliseconds")
    parser.add_argument("--no-webgl", action="store_true", help="the page cannot warp images")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--images", type=Path, help="folder for what was shown, and the truth")
    given = parser.parse_args()
    try:
        if given.run:
            Run.load(given.run)  # an invalid run is reported here and not in a notebook cell
    except InputError as error:
        parser.error(str(error))
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder = given.run.resolve() if given.run else trained(scratch / "run")
        lab = stack.enter_context(Lab(scratch))
        if given.network:
            port = int(lab.url.rpartition(":")[2])
            far = stack.enter_context(delayed(port, given.network / 1000.0))
            lab.url = f"http://127.0.0.1:{far}"
        port = free_port()
        browser = stack.enter_context(running_chromium(f"--remote-debugging-port={port}"))
        desk = stack.enter_context(at_desk(lab, browser, viewport={"width": 1280, "height": 900}))
        bench = Bench(desk, folder, given, port)
        figures = bench.measure(has_webgl=not given.no_webgl)
    for name, values in figures.items():
        print(f"{name:48}{summary(values)}")
    if given.json:
        given.json.write_text(json.dumps({"device": device_name(), **figures}, indent=1))


def trained(folder: Path) -> Path:
    """Train on the built-in scene for 30 s, and return the run folder."""
    command = [sys.executable, "-m", "nerfmac", "train", "--seconds", "30", "--no-video"]
    subprocess.run([*command, "--out", str(folder)], check=True, stdout=subprocess.DEVNULL)
    return folder


class Bench:
    """Notebook with a viewer of the run in `folder`. The measurements drag the image repeatedly."""

    def __init__(self, desk: Desk, folder: Path, given: argparse.Namespace, port: int) -> None:
        """Create the notebook. `port` is the port of Chromium's DevTools, and `given` contains the
        command-line arguments."""
        self._desk, self._folder, self._port = desk, folder, port
        self._drags, self._keep = given.drags, given.images
        run = Run.load(folder)
        self._truth = Images(run.model, run.state, Settings().options)
        self._figures: dict[str, list[float]] = {}

    def measure(self, *, has_webgl: bool) -> dict[str, list[float]]:
        """Return all measurements. The time of the first image is measured once, and all other
        values are measured for each drag."""
        code = f"import nerfmac\nviewer = nerfmac.Viewer({str(self._folder)!r})"
        tab = self._desk.open_notebook([code, "viewer"])
        if not has_webgl:
            tab.page.evaluate(f"() => {{ {NO_WEBGL} }}")
        begin = tab.page.evaluate("() => performance.now()")
        tab.run_all()
        rest(tab)
        opened = tab.page.evaluate(f"() => ({SHOWN})().frames[0]") - begin
        self._figures["cell run to first image, s"] = [opened / 1000.0]
        self._drag(tab, None)  # warms up: draws every size once
        for _ in range(self._drags):
            self._drag(tab, "at rest")
        self._desk.run("viewer.train()")
        tab.page.wait_for_timeout(5000)
        for _ in range(self._drags):
            self._drag(tab, "in training")
        self._desk.run("viewer.pause()")
        return self._figures

    def _drag(self, tab: Tab, when: str | None) -> None:
        """Drag once, wait for the final image, and add the measurements of the drag."""
        before = tab.page.evaluate(f"() => ({{now: performance.now(), ...({SHOWN})()}})")
        tab.page.evaluate(RECORD, INTERVAL)
        drag(tab, self._port)
        after: dict[str, Any] = tab.page.evaluate(
            f"() => ({{now: performance.now(), ...({SHOWN})()}})"
        )
        recorded = tab.page.evaluate(RECORDED)
        seconds = (after["now"] - before["now"]) / 1000.0
        pairs = zip(after["answered"], after["latencies"], strict=True)
        latencies = [latency for time, latency in pairs if time > before["now"]]
        latencies = recorded["finished"] or latencies  # a page that does not warp draws immediately
        rest(tab)
        drawn, received = (
            sum(time > before["now"] for time in after[name]) / seconds
            for name in ("frames", "received")
        )
        values = {
            "drawn images a second": drawn,
            "the kernel's images a second": received,
            "median latency, ms": float(np.median(latencies)),
            "95th percentile of it, ms": float(np.percentile(latencies, 95)),
            "width of the kernel's, pixels": after["lastFrame"]["scale"]
            * after["lastFrame"]["width"],
        }
        if when == "at rest":  # training would change the truth
            values["PSNR to the true view, dB"] = self._quality(recorded["images"])
        if when:
            for name, value in values.items():
                self._figures.setdefault(f"drag {when}: {name}", []).append(value)

    def _quality(self, kept: list[dict[str, Any]]) -> float:
        """Return the mean PSNR in dB of the stored images relative to full renderings."""
        qualities = []
        for number, each in enumerate(kept):
            shown = np.asarray(Image.open(io.BytesIO(base64.b64decode(each["png"]))).convert("RGB"))
            height, width = shown.shape[:2]
            pose = np.reshape(each["pose"], (3, 4))
            camera = Keyframe(pose, each["fov"]).camera(width, height)
            truth = self._truth.draw(camera, 1.0).rgb
            qualities.append(psnr(shown / np.float32(255), truth / np.float32(255)))
            if self._keep:
                self._keep.mkdir(parents=True, exist_ok=True)
                both = Image.fromarray(np.concatenate([shown, truth]))
                both.save(self._keep / f"{number}_{qualities[-1]:.1f}dB.png")
        return float(np.mean(qualities))


def drag(tab: Tab, port: int) -> None:
    """Drag over the image with `MOVES` mouse moves per second, even if the page is slow.

    The mouse of Playwright cannot be used, because it waits for the page after each move.
    """
    box = tab.page.locator(IMAGE).bounding_box()
    assert box, "there is no image"
    middle = np.array([box["x"] + box["width"] / 2, box["y"] + box["height"] / 2])
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/json") as answer:
        pages = [each for each in json.load(answer) if each["url"] == tab.page.url]
    line = websocket.create_connection(pages[0]["webSocketDebuggerUrl"], suppress_origin=True)

    def say(number: int, kind: str, at: np.ndarray) -> None:
        where = {"x": float(at[0]), "y": float(at[1])}
        event = {"type": kind, "button": "left", "buttons": 1, "clickCount": 1, **where}
        line.send(json.dumps({"id": number, "method": "Input.dispatchMouseEvent", "params": event}))

    say(0, "mousePressed", middle)
    begin, count = time.monotonic(), round(SECONDS * MOVES)
    for number in range(1, count + 1):
        time.sleep(max(begin + number / MOVES - time.monotonic(), 0.0))
        say(number, "mouseMoved", middle + np.multiply(DRAG, number / count))
    say(count + 1, "mouseReleased", middle + DRAG)
    while json.loads(line.recv()).get("id") != count + 1:
        pass
    line.close()


def rest(tab: Tab) -> None:
    """Wait until no new image has arrived for one second, but for at most five seconds."""
    for _ in range(5):
        before = tab.page.evaluate(f"() => ({SHOWN})()?.frames.length ?? 0")
        tab.page.wait_for_timeout(1000)
        if before and tab.page.evaluate(f"() => ({SHOWN})().frames.length") == before:
            return


def summary(values: list[float]) -> str:
    """Format the median and the range as text."""
    if len(values) == 1:
        return f"{values[0]:8.2f}"
    return f"{np.median(values):8.1f}   ({min(values):.1f} to {max(values):.1f})"


if __name__ == "__main__":
    main()
