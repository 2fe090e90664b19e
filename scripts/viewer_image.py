"""Create the still images in the README: `nerfmac view` with a trained run in Chromium and, with
`--phone`, the exported page of the run on an upright phone.

    nerfmac train --steps 8000 --out runs/still_life
    python scripts/viewer_image.py runs/still_life data/viewer.png --phone data/phone.webp

The requirements are the same as for the tests of the viewer (CONTRIBUTING.md, "The viewer").
"""

from __future__ import annotations

import argparse
import io
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

from PIL import Image
from playwright.sync_api import Browser, Page

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from nerfmac.app.export import write_scene_page
from nerfmac.app.run import Run
from tests.app.export.scene_page.tab import Tab
from tests.app.viewer.notebook.browser import WEBGPU, running_chromium

COMPUTER: dict[str, Any] = {
    "viewport": {"width": 1180, "height": 780},
    "device_scale_factor": 1.5,
}
PHONE: dict[str, Any] = {
    "viewport": {"width": 390, "height": 844},
    "device_scale_factor": 2,
    "has_touch": True,
    "is_mobile": True,
}
PATIENCE = 600_000
"""Maximum time for an image in milliseconds."""
LAST_FRAME = "document.querySelector('.nerfmac-viewer')?.nerfmac.lastFrame"


def main() -> None:
    """Write the images that the command line requests."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("run", type=Path, metavar="RUN")
    parser.add_argument("out", type=Path, metavar="OUT.png")
    parser.add_argument("--phone", type=Path, metavar="OUT.webp")
    arguments = parser.parse_args()
    with running_chromium() as browser, viewer(arguments.run) as address:
        page = opened(browser, address, COMPUTER)
        page.get_by_role("button", name="View panel").click()
        page.wait_for_timeout(2000)
        page.wait_for_function(f"() => {LAST_FRAME}.still", timeout=PATIENCE)
        page.wait_for_timeout(1000)
        page.screenshot(path=arguments.out)
    if arguments.phone:
        save_page(Run.load(arguments.run), arguments.phone)


@contextmanager
def viewer(path: Path) -> Iterator[str]:
    """Run `nerfmac view` with a run or a scene, and return the address of its page."""
    command = [sys.executable, "-m", "nerfmac", "view", str(path), "--no-browser"]
    with Popen(command, stdout=PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def opened(browser: Browser, address: str, device: dict[str, Any]) -> Page:
    """Return a new page with the viewer, after its first image."""
    page = browser.new_context(**device).new_page()
    page.goto(address)
    page.wait_for_function(f"() => {LAST_FRAME}", timeout=PATIENCE)
    return page


def save_page(run: Run, out: Path) -> None:
    """Write an image of the exported page of a run on a phone."""
    with tempfile.TemporaryDirectory() as folder, running_chromium(*WEBGPU) as browser:
        path = Path(folder) / "scene.html"
        write_scene_page(run, path, title="Still life")
        tab = Tab(browser, path, **PHONE)
        tab.rest()
        shown = Image.open(io.BytesIO(tab.page.screenshot())).convert("RGB")
        shown.save(out, quality=85)
        tab.close()


if __name__ == "__main__":
    main()
