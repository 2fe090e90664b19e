"""Create the animated images in the README and the documentation. All of them show the built-in
scene.

    nerfmac train --steps 8000 --out runs/still_life
    python scripts/moving_images.py videos runs/still_life docs/images
    python scripts/moving_images.py orbit runs/still_life data/video.webp
    python scripts/moving_images.py viewer data/training.webp

`videos` renders the run along every path of `nerfmac render`, and along the orbit once for each
output: NAME.webp. `orbit` renders one large orbit. `viewer` opens the page of `nerfmac view` in
Chromium, and drags the view while the field is trained: a time-lapse with increasing intervals
between images. The requirements are the same as for the tests of the viewer (CONTRIBUTING.md, "The
viewer").
"""

from __future__ import annotations

import argparse
import io
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from viewer_image import LAST_FRAME, PATIENCE, opened, viewer

import nerfmac
from nerfmac.app.paths import MOVES, tour
from nerfmac.app.run import Run
from nerfmac.app.video import render_video
from nerfmac.config.rendering import OUTPUTS, RenderOptions
from nerfmac.geometry import Camera
from tests.app.viewer.notebook.browser import running_chromium

SIDE, LARGE_SIDE = 240, 720
"""Width and height of animated images in the documentation and in the README, in pixels."""
FRAMES = 40
MILLISECONDS = 100
"""Duration of each frame in milliseconds."""
QUALITY = 60
"""WebP quality from 0 to 100."""

COMPUTER = {"viewport": {"width": 1240, "height": 640}}
SHOTS = 44
"""Number of frames in the animated image of the training."""
LAST_STEP = 1500
LAST = 12
"""Number of times that the last image is repeated, so that it is visible for longer."""
TURN = 8
"""Horizontal mouse motion between two frames, in pixels."""


def main() -> None:
    """Create the images that the command line requests."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    kinds = parser.add_subparsers(dest="kind", required=True)
    videos = kinds.add_parser("videos")
    videos.add_argument("run", type=Path, metavar="RUN")
    videos.add_argument("out", type=Path, metavar="FOLDER")
    orbit = kinds.add_parser("orbit")
    orbit.add_argument("run", type=Path, metavar="RUN")
    orbit.add_argument("out", type=Path, metavar="OUT.webp")
    kinds.add_parser("viewer").add_argument("out", type=Path, metavar="OUT.webp")
    arguments = parser.parse_args()
    if arguments.kind == "videos":
        make_videos(Run.load(arguments.run), arguments.out)
    elif arguments.kind == "orbit":
        run = Run.load(arguments.run)
        save(rendered(run, run.orbit(FRAMES, size=(LARGE_SIDE, LARGE_SIDE))), arguments.out)
    else:
        save(in_training(), arguments.out, 150)


def make_videos(run: Run, out: Path) -> None:
    """Write one animated image per path and per output to the folder `out`."""
    cameras, up, size = run.scene.cameras("train"), run.scene.up, (SIDE, SIDE)
    paths = {name: move(cameras, up=up, frames=FRAMES, size=size) for name, move in MOVES.items()}
    paths["tour"] = tour(cameras, up=up, frames=FRAMES, size=size)
    out.mkdir(parents=True, exist_ok=True)
    made = [(name, path, "rgb") for name, path in paths.items()]
    made += [(output, paths["orbit"], output) for output in OUTPUTS if output != "rgb"]
    for name, path, output in made:
        save(rendered(run, path, output), out / f"{name}.webp")


def rendered(run: Run, path: Sequence[Camera], output: str = "rgb") -> list[Image.Image]:
    """Return the renderings of a run along a path."""
    with tempfile.TemporaryDirectory() as folder:
        frames = Path(folder) / "frames"
        render_video(run, path, frames, RenderOptions(output, samples_per_pixel=2))
        return [Image.open(file).convert("RGB") for file in sorted(frames.glob("*.png"))]


def in_training() -> list[Image.Image]:
    """Return screenshots of the viewer while it trains on the built-in scene and the mouse drags
    the view."""
    images = []
    with running_chromium() as browser, viewer(nerfmac.builtin_scene_path()) as address:
        page = opened(browser, address, COMPUTER)
        page.get_by_role("button", name="Training panel").click()
        page.mouse.move(100, 200)
        page.mouse.down()
        for shot in range(SHOTS):
            wanted = round(LAST_STEP * (shot / (SHOTS - 1)) ** 2.5)
            page.wait_for_function(f"() => {LAST_FRAME}.step >= {wanted}", timeout=PATIENCE)
            page.mouse.move(100 + TURN * (shot + 1), 200, steps=4)
            page.wait_for_timeout(600)
            images.append(seen(page))
        page.mouse.up()
        page.get_by_role("button", name="Pause training").click()
        page.wait_for_function(f"() => {LAST_FRAME}.still", timeout=PATIENCE)
        images += LAST * [seen(page)]
    return images


def seen(page: Page) -> Image.Image:
    """Return a screenshot of the page, resized for the documentation."""
    shown = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    return shown.resize((960, round(960 * shown.height / shown.width)), Image.Resampling.LANCZOS)


def save(images: Sequence[Image.Image], out: Path, milliseconds: int = MILLISECONDS) -> None:
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
