"""Create the viewer image in the README: a trained run in JupyterLab in Chromium, with an open
panel.

    nerfmac train --steps 3000 --out runs/still_life
    python scripts/viewer_image.py runs/still_life data/viewer.png

The requirements are the same as for the tests of the viewer (CONTRIBUTING.md, "The viewer").
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.app.viewer.notebook.browser import running_chromium
from tests.app.viewer.notebook.desk import at_desk
from tests.app.viewer.notebook.lab import Lab
from tests.app.viewer.notebook.sight import Sight

CELLS = ['import nerfmac\n\nviewer = nerfmac.Viewer("runs/still_life")\nviewer', "viewer.run"]
PAGE = {"width": 1180, "height": 780}
PIXELS = 1.5
"""Number of image pixels per CSS pixel of the page."""
CLOSER = -150
"""Mouse wheel motion in pixels that moves the camera closer, so that the scene fills the view next
to the panel."""


def main() -> None:
    """Write the image that the command line requests."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("run", type=Path, metavar="RUN")
    parser.add_argument("out", type=Path, metavar="OUT.png")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Lab(Path(folder)) as lab:
        (lab.notebooks / "runs").mkdir()
        (lab.notebooks / "runs" / "still_life").symlink_to(arguments.run.resolve())
        with (
            running_chromium() as browser,
            at_desk(lab, browser, viewport=PAGE, device_scale_factor=PIXELS) as desk,
        ):
            tab = desk.open_notebook(CELLS, "still life")
            tab.start("application:toggle-left-area")
            tab.start("notebook:run-cell")
            tab.wait_for(".nerfmac-viewer", timeout=120)
            sight = Sight(tab)
            tab.wait_for(sight.last, timeout=120)
            sight.click("View panel")
            sight.root.locator(".nerfmac-image").hover(position={"x": 300, "y": 250})
            tab.page.mouse.wheel(0, CLOSER)
            tab.wait_for(lambda: sight.last().get("still"), timeout=240)
            tab.page.wait_for_timeout(2000)
            tab.wait_for(lambda: sight.last().get("still"), timeout=240)
            tab.page.screenshot(path=arguments.out)


if __name__ == "__main__":
    main()
