"""Measure the viewer in JupyterLab and a browser, dragged by a mouse.

    python scripts/bench_viewer.py [RUN] [--drags N] [--json FILE]

RUN is the folder of a run; by default the built-in scene is trained for 30 s first. Server, kernel
and browser run on this machine, and Chromium renders in software. It needs the extra `notebook`,
Playwright and Chromium (scripts/install_chromium.sh).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from nerfmac.backend import device_name  # noqa: E402
from nerfmac.common.checks import InputError  # noqa: E402
from nerfmac.run import Run  # noqa: E402
from tests.viewer.notebook.browser import running_chromium  # noqa: E402
from tests.viewer.notebook.desk import Desk, at_desk  # noqa: E402
from tests.viewer.notebook.lab import Lab  # noqa: E402
from tests.viewer.notebook.tab import Tab  # noqa: E402

SHOWN = "() => document.querySelector('.nerfmac-viewer')?.nerfmac"
PICTURE = ".nerfmac-picture"
DRAG = (240, 60)  # right and down, CSS pixels
MOVES = 90
"""Number of mouse moves in a drag. Playwright makes about 30 per second."""


def main() -> None:
    """Measure and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, nargs="?", help="folder of a run")
    parser.add_argument("--drags", type=int, default=7, help="number of drags for each figure")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    given = parser.parse_args()
    try:
        if given.run:
            Run.load(given.run)  # a broken run fails here, not in a notebook's cell
    except InputError as error:
        parser.error(str(error))
    with tempfile.TemporaryDirectory() as scratch:
        run = given.run.resolve() if given.run else trained(Path(scratch) / "run")
        lab, chromium = Lab(Path(scratch)), running_chromium()
        with lab, chromium as browser, at_desk(lab, browser) as desk:
            figures = measure(desk, run, given.drags)
    for name, values in figures.items():
        print(f"{name:44}{summary(values)}")
    if given.json:
        given.json.write_text(json.dumps({"device": device_name(), **figures}, indent=1))


def trained(folder: Path) -> Path:
    """Train the built-in scene for 30 s; return the run's folder."""
    command = [sys.executable, "-m", "nerfmac", "train", "--seconds", "30", "--no-video"]
    subprocess.run([*command, "--out", str(folder)], check=True, stdout=subprocess.DEVNULL)
    return folder


def measure(desk: Desk, run: Path, drags: int) -> dict[str, list[float]]:
    """All figures by name: the first picture's time once, the others for each of `drags` drags."""
    tab = desk.open_notebook([f"import nerfmac\nviewer = nerfmac.Viewer({str(run)!r})", "viewer"])
    begin = tab.page.evaluate("() => performance.now()")
    tab.run_all()
    rest(tab)
    opened = tab.page.evaluate(f"() => ({SHOWN})().frames[0]") - begin
    figures: dict[str, list[float]] = {"cell run to first picture, s": [opened / 1000.0]}
    drag(tab)  # warms up: draws every size once
    add(figures, "at rest", [drag(tab) for _ in range(drags)])
    desk.run("viewer.train()")
    tab.page.wait_for_timeout(5000)
    add(figures, "in training", [drag(tab) for _ in range(drags)])
    desk.run("viewer.pause()")
    return figures


def add(figures: dict[str, list[float]], when: str, drags: list[dict[str, float]]) -> None:
    """Add the results of several drags to `figures`."""
    for name in drags[0]:
        figures[f"drag {when}: {name}"] = [result[name] for result in drags]


def drag(tab: Tab) -> dict[str, float]:
    """Drag once and wait for the final picture; return the figures of the drag."""
    before = tab.page.evaluate(f"() => ({{now: performance.now(), ...({SHOWN})()}})")
    tab.drag(PICTURE, by=DRAG, steps=MOVES)
    after: dict[str, Any] = tab.page.evaluate(f"() => ({{now: performance.now(), ...({SHOWN})()}})")
    seconds = (after["now"] - before["now"]) / 1000.0
    frames = [time for time in after["frames"] if time > before["now"]]
    pairs = zip(after["answered"], after["latencies"], strict=True)
    latencies = [latency for time, latency in pairs if time > before["now"]]
    rest(tab)
    return {
        "pictures a second": len(frames) / seconds,
        "median latency, ms": float(np.median(latencies)),
        "95th percentile of it, ms": float(np.percentile(latencies, 95)),
        "width of a picture, pixels": after["lastFrame"]["scale"] * after["lastFrame"]["width"],
    }


def rest(tab: Tab) -> None:
    """Wait for a second without a new picture, or five seconds in all."""
    for _ in range(5):
        before = tab.page.evaluate(f"() => ({SHOWN})()?.frames.length ?? 0")
        tab.page.wait_for_timeout(1000)
        if before and tab.page.evaluate(f"() => ({SHOWN})().frames.length") == before:
            return


def summary(values: list[float]) -> str:
    """Median and range as text."""
    if len(values) == 1:
        return f"{values[0]:8.2f}"
    return f"{np.median(values):8.1f}   ({min(values):.1f} to {max(values):.1f})"


if __name__ == "__main__":
    main()
