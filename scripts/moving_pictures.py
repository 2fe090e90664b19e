"""Make the moving pictures of README and the documentation, all of the built-in scene.

    nerfmac train --seconds 150 --out runs/still_life
    python scripts/moving_pictures.py films runs/still_life docs/pictures
    python scripts/moving_pictures.py viewer data/training.webp

`films` renders the run along every path of `nerfmac render`, and along the orbit once for each
output: NAME.webp. `viewer` opens the viewer in JupyterLab in Chromium, starts training and drags
the view round: a time-lapse, whose pictures are farther and farther apart. It needs what the tests
of the viewer need (CONTRIBUTING.md, "The viewer").
"""

from __future__ import annotations

import argparse
import io
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from nerfmac.app.film import OUTPUTS, RenderOptions, film
from nerfmac.app.paths import MOVES, tour
from nerfmac.app.run import Run
from tests.app.viewer.notebook.browser import running_chromium
from tests.app.viewer.notebook.desk import at_desk
from tests.app.viewer.notebook.lab import Lab
from tests.app.viewer.notebook.sight import Sight
from tests.app.viewer.notebook.tab import Tab

SIDE = 240
"""Width and height of a film's pictures in pixels."""
FRAMES = 40
MILLISECONDS = 100
"""Time for which each picture of a film is shown."""
QUALITY = 60
"""Quality of the WebP pictures, up to 100."""

CELL = "import nerfmac\n\nviewer = nerfmac.Viewer(nerfmac.builtin_scene_path())\nviewer"
PAGE = {"width": 1240, "height": 640}
SHOTS = 44
"""Pictures of the training."""
LAST_STEP = 1500
LAST = 12
"""Times that the last picture is repeated, to be looked at."""
TURN = 8
"""Pixels that the mouse moves between two pictures."""
CLOSER = -60
"""Pixels of wheel scrolling, so that the scene fills the view beside the panel."""


def main() -> None:
    """Make the pictures that the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    kinds = parser.add_subparsers(dest="kind", required=True)
    films = kinds.add_parser("films")
    films.add_argument("run", type=Path, metavar="RUN")
    films.add_argument("out", type=Path, metavar="FOLDER")
    kinds.add_parser("viewer").add_argument("out", type=Path, metavar="OUT.webp")
    arguments = parser.parse_args()
    if arguments.kind == "films":
        make_films(Run.load(arguments.run), arguments.out)
    else:
        save(in_training(), arguments.out, 150)


def make_films(run: Run, out: Path) -> None:
    """Write one moving picture per path and per output to the folder `out`."""
    cameras, up, size = run.scene.cameras, run.scene.up, (SIDE, SIDE)
    paths = {name: move(cameras, up=up, frames=FRAMES, size=size) for name, move in MOVES.items()}
    paths["tour"] = tour(cameras, up=up, frames=FRAMES, size=size)
    out.mkdir(parents=True, exist_ok=True)
    made = [(name, path, "rgb") for name, path in paths.items()]
    made += [(output, paths["orbit"], output) for output in OUTPUTS if output != "rgb"]
    for name, path, output in made:
        with tempfile.TemporaryDirectory() as folder:
            frames = Path(folder) / "frames"
            film(run, path, frames, RenderOptions(output=output, samples=2))
            pictures = [Image.open(file).convert("RGB") for file in sorted(frames.glob("*.png"))]
        save(pictures, out / f"{name}.webp", MILLISECONDS)


def in_training() -> list[Image.Image]:
    """Pictures of the viewer while it trains the built-in scene and a mouse drags the view."""
    pictures = []
    with (
        tempfile.TemporaryDirectory() as folder,
        Lab(Path(folder)) as lab,
        running_chromium() as browser,
        at_desk(lab, browser, viewport=PAGE) as desk,
    ):
        tab = desk.open_notebook([CELL], "still life")
        tab.start("application:toggle-left-area")
        tab.start("notebook:run-cell")
        tab.wait_for(".nerfmac-viewer", timeout=120)
        sight = Sight(tab)
        tab.wait_for(sight.last, timeout=120)
        sight.click("Training panel")
        picture = sight.root.locator(".nerfmac-picture")
        picture.hover(position={"x": 300, "y": 250})
        tab.page.mouse.wheel(0, CLOSER)
        tab.wait_for(lambda: sight.last().get("still"), timeout=240)
        sight.click("Start training")
        picture.hover(position={"x": 100, "y": 200})
        tab.page.mouse.down()
        for shot in range(SHOTS):
            wanted = round(LAST_STEP * (shot / (SHOTS - 1)) ** 2.5)
            while sight.step() < wanted:
                tab.page.wait_for_timeout(100)
            tab.page.mouse.move(100 + TURN * (shot + 1), 200, steps=4)
            tab.page.wait_for_timeout(600)
            pictures.append(seen(tab))
        tab.page.mouse.up()
        sight.click("Pause training")
        tab.wait_for(lambda: sight.last().get("still"), timeout=240)
        pictures += LAST * [seen(tab)]
    return pictures


def seen(tab: Tab) -> Image.Image:
    """What a page shows, at a size for documents."""
    shown = Image.open(io.BytesIO(tab.page.screenshot())).convert("RGB")
    return shown.resize((960, round(960 * shown.height / shown.width)), Image.Resampling.LANCZOS)


def save(pictures: Sequence[Image.Image], out: Path, milliseconds: int) -> None:
    """Write the `pictures` as one moving picture that repeats."""
    first, *others = pictures
    first.save(
        out,
        save_all=True,
        append_images=others,
        duration=milliseconds,
        loop=0,
        quality=QUALITY,
    )
    print(f"{out}: {len(pictures)} pictures, {out.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
