"""Measure an exported scene page in headless Chromium. The page is read from disk, without a
network.

    nerfmac export runs/still_life scene.html
    python scripts/bench_page.py runs/still_life scene.html --image data/page.jpg

The script prints the page size in bytes, the time to the first image in seconds, the PSNR relative
to nerfmac's renderings for three cameras, and the frames per second while the view rotates. With
`--image`, it also writes an image of the page. In headless Chromium, the CPU executes WebGPU.
"""

from __future__ import annotations

import argparse
import io
import sys
import time
from pathlib import Path

import mlx.core as mx
import numpy as np
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from nerfmac.app.run import Run
from nerfmac.backend import choose_device
from nerfmac.geometry import Camera, linear_to_srgb
from nerfmac.rendering.metrics import psnr
from tests.app.export.scene_page.tab import Tab
from tests.app.viewer.notebook.browser import WEBGPU, running_chromium

SIZE = 640, 400
"""Width and height of the page in pixels."""
CAMERA_SIZE = 160, 100
TURNING = 8.0
"""Duration in seconds of the rotation of the view."""
FLIGHT = "document.body.nerfmac.flight"
TURN = """(seconds) => new Promise((done) => {
  const { flight } = document.body.nerfmac;
  const [begin, before] = [performance.now(), flight.screen.frames.length];
  const turn = () => {
    const [angle, { pose }] = [(performance.now() - begin) / 4000, flight.home];
    const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
    const turned = [0, 4, 8].flatMap((row) => {
      const [right, up, back, place] = pose.slice(row, row + 4);
      return [cos * right - sin * back, up, sin * right + cos * back, place];
    });
    flight.show({ ...flight.home, pose: turned }, true);
    if (performance.now() - begin < 1000 * seconds) requestAnimationFrame(turn);
    else done([flight.screen.frames.length - before, flight.screen.shown.width]);
  };
  turn();
})"""


def main() -> None:
    """Print the measurements that the command line requests."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("run", type=Path, metavar="RUN")
    parser.add_argument("page", type=Path, metavar="PAGE.html")
    parser.add_argument("--image", type=Path, metavar="OUT.jpg", help="write what the page shows")
    arguments = parser.parse_args()
    choose_device("cpu")
    run = Run.load(arguments.run)
    print(f"{arguments.page.stat().st_size} bytes")
    with running_chromium(*WEBGPU) as browser:
        begin = time.perf_counter()
        size = {"width": SIZE[0], "height": SIZE[1]}
        path = arguments.page.resolve()
        tab = Tab(browser, path, viewport=size, reduced_motion="reduce")
        tab.wait(f"document.body.nerfmac && {FLIGHT}.screen?.shown")
        print(f"{time.perf_counter() - begin:.2f} s to the first image")
        print("PSNR " + ", ".join(f"{value:.1f}" for value in compared(run, tab)) + " dB")
        frames, width = tab.run(TURN, TURNING)
        print(f"{frames / TURNING:.1f} frames a second, {width} pixels across")
        if arguments.image:
            tab.run(f"{FLIGHT}.show({FLIGHT}.home, false)")
            tab.wait(f"{FLIGHT}.screen.shown.samples >= 3")
            image = Image.open(io.BytesIO(tab.page.screenshot())).convert("RGB")
            image.save(arguments.image, quality=88, optimize=True)
        tab.close()


def compared(run: Run, tab: Tab) -> list[float]:
    """Return the PSNR in dB of images on the page relative to images rendered by nerfmac, for three
    cameras and one sample per pixel."""
    values = []
    tab.run(f"{FLIGHT}.screen.look({FLIGHT}.home, true)")  # disables refinement
    for own in run.orbit(3):
        camera = Camera(own.lens.within(*CAMERA_SIZE), own.pose)
        sums, _ = tab.image(camera, strips=16)
        seen = np.array(linear_to_srgb(mx.array(sums[..., :3].astype(np.float32))))
        values.append(psnr(seen, run.render(camera).color))
    return values


if __name__ == "__main__":
    main()
