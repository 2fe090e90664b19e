"""Measure the cost of an open but unused viewer for training.

    python scripts/bench_idle.py RUN [--seconds S] [--turns N]

RUN is a run folder that can be trained further. In JupyterLab, with the viewer open in a browser,
the same process trains alternately without the viewer (`Run.train`) and with it. The requirements
are the same as for scripts/bench_viewer.py.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from nerfmac.app.viewer.open_page import TOUCH
from tests.app.viewer.notebook.browser import running_chromium
from tests.app.viewer.notebook.desk import Desk, at_desk
from tests.app.viewer.notebook.lab import Lab

WARM = 2.0
"""Training time in seconds before the measurement. During this time, kernels are compiled and the
report interval becomes constant."""

CODE = """
import nerfmac, time
from nerfmac.app.viewer.worker import the_worker

viewer = nerfmac.Viewer({folder!r})


def without(seconds):
    run, seen = viewer.run, []
    goal = run.state.train_seconds + seconds + {warm}
    note = lambda report: seen.append((time.monotonic(), run.state.step))
    the_worker().submit(
        lambda: nerfmac.resume(run, nerfmac.Goal(seconds=goal), progress=False, on_report=note)
    ).result()
    (begin, first), (end, last) = next(s for s in seen if s[0] > seen[0][0] + {warm}), seen[-1]
    return (last - first) / (end - begin)


def beside(seconds):
    viewer.train()
    time.sleep({warm})
    begin, first = time.monotonic(), viewer.run.state.step
    time.sleep(seconds)
    end, last = time.monotonic(), viewer.run.state.step
    viewer.pause()
    return (last - first) / (end - begin)
"""


def main() -> None:
    """Measure and print the steps per second with and without the viewer in each turn, and the
    median ratio."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, help="folder of a run")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each training")
    parser.add_argument("--turns", type=int, default=5)
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as scratch,
        Lab(Path(scratch)) as lab,
        running_chromium() as browser,
        at_desk(lab, browser) as desk,
    ):
        ratios = measure(desk, given.run.resolve(), given.seconds, given.turns)
    print(f"median of the ratios {np.median(ratios):.3f}")


def measure(desk: Desk, run: Path, seconds: float, turns: int) -> list[float]:
    """Return, for each turn, the ratio of the number of steps with the viewer to the number of
    steps without it."""
    code = CODE.format(folder=str(run), warm=WARM)
    tab = desk.open_notebook([code, "viewer"])
    tab.run_all()
    tab.page.wait_for_timeout(1000.0 * (TOUCH + 1.0))  # by then, the viewer counts as unused
    ratios = []
    for _ in range(turns):
        without, beside = (
            desk.run(f"{name}({seconds})", timeout=10.0 * seconds + 60.0)
            for name in ("without", "beside")
        )
        print(f"{without:8.2f} steps/s without the viewer, {beside:8.2f} beside it", flush=True)
        ratios.append(beside / without)
    return ratios


if __name__ == "__main__":
    main()
