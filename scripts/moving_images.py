"""Create the animated images in the README and the documentation. All of them show the built-in
scene.

    nerfmac train --seconds 150 --out runs/still_life
    python scripts/moving_images.py videos runs/still_life docs/images
    python scripts/moving_images.py viewer data/training.webp

`videos` renders the run along every path of `nerfmac render`, and along the orbit once for each
output: NAME.webp. `viewer` opens the viewer in JupyterLab in Chromium, starts training, and drags
the view: a time-lapse with increasing intervals between images. The requirements are the same as
for the tests of the viewer (CONTRIBUTING.md, "The viewer").
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

from nerfmac.app.paths import MOVES, tour
from nerfmac.app.run import Run
from nerfmac.app.video import render_video
from nerfmac.config.rendering import OUTPUTS, RenderOptions
from tests.app.viewer.notebook.browser import running_chromium
from tests.app.viewer.notebook.desk import at_desk
from tests.app.viewer.notebook.lab import Lab
from tests.app.viewer.notebook.sight import Sight
from tests.app.viewer.notebook.tab import Tab

SIDE = 240
"""Width and height of animated images in pixels."""
FRAMES = 40
MILLISECONDS = 100
"""Duration of each frame in milliseconds."""
QUALITY = 60
"""WebP quality from 0 to 100."""

CELL = "import nerfmac\n\nviewer = nerfmac.Viewer(nerfmac.builtin_scene_path())\nviewer"
PAGE = {"width": 1240, "height": 640}
SHOTS = 44
"""Number of frames in the animated image of the training."""
LAST_STEP = 1500
LAST = 12
"""Number of times that the last image is repeated, so that it is visible for longer."""
TURN = 8
"""Horizontal mouse motion between two frames, in pixels."""
CLOSER = -60
"""Mouse wheel motion in pixels that moves the camera closer, so that the scene fills the view next
to the panel."""


def main() -> None:
    """Create the images that the command line requests."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    kinds = parser.add_subparsers(dest="kind", required=True)
    videos = kinds.add_parser("videos")
    videos.add_argument("run", type=Path, metavar="RUN")
    videos.add_argument("out", type=Path, metavar="FOLDER")
    kinds.add_parser("viewer").add_argument("out", type=Path, metavar="OUT.webp")
    arguments = parser.parse_args()
    if arguments.kind == "videos":
        make_videos(Run.load(arguments.run), arguments.out)
    else:
        save(in_training(), arguments.out, 150)


def make_videos(run: Run, out: Path) -> None:
    """Write one animated image per path and per output to the folder `out`."""
    cameras, up, size = run.scene.cameras, run.scene.up, (SIDE, SIDE)
    paths = {name: move(cameras, up=up, frames=FRAMES, size=size) for name, move in MOVES.items()}
    paths["tour"] = tour(cameras, up=up, frames=FRAMES, size=size)
    out.mkdir(parents=True, exist_ok=True)
    made = [(name, path, "rgb") for name, path in paths.items()]
    made += [(output, paths["orbit"], output) for output in OUTPUTS if output != "rgb"]
    for name, path, output in made:
        with tempfile.TemporaryDirectory() as folder:
            frames = Path(folder) / "frames"
            render_video(run, path, frames, RenderOptions(output, samples_per_pixel=2))
            images = [Image.open(file).convert("RGB") for file in sorted(frames.glob("*.png"))]
        save(images, out / f"{name}.webp", MILLISECONDS)


def in_training() -> list[Image.Image]:
    """Return screenshots of the viewer while it trains on the built-in scene and the mouse drags
    the view."""
    images = []
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
        image = sight.root.locator(".nerfmac-image")
        image.hover(position={"x": 300, "y": 250})
        tab.page.mouse.wheel(0, CLOSER)
        tab.wait_for(lambda: sight.last().get("still"), timeout=240)
        sight.click("Start training")
        image.hover(position={"x": 100, "y": 200})
        tab.page.mouse.down()
        for shot in range(SHOTS):
            wanted = round(LAST_STEP * (shot / (SHOTS - 1)) ** 2.5)
            while sight.step() < wanted:
                tab.page.wait_for_timeout(100)
            tab.page.mouse.move(100 + TURN * (shot + 1), 200, steps=4)
            tab.page.wait_for_timeout(600)
            images.append(seen(tab))
        tab.page.mouse.up()
        sight.click("Pause training")
        tab.wait_for(lambda: sight.last().get("still"), timeout=240)
        images += LAST * [seen(tab)]
    return images


def seen(tab: Tab) -> Image.Image:
    """Return a screenshot of the page, resized for the documentation."""
    shown = Image.open(io.BytesIO(tab.page.screenshot())).convert("RGB")
    return shown.resize((960, round(960 * shown.height / shown.width)), Image.Resampling.LANCZOS)


def save(images: Sequence[Image.Image], out: Path, milliseconds: int) -> None:
    """Write `images` as one animated image that repeats."""
    first, *others = images
    first.save(
        out,
        save_all=True,
        append_images=others,
        duration=milliseconds,
        loop=0,
        quality=QUALITY,
    )
    print(f"{out}: {len(images)} images, {out.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
