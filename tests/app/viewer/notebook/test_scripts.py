"""The scripts that measure or draw the viewer and the exported page in a browser run."""

import subprocess
import sys

import pytest

from tests.app.viewer.notebook.browser import chromium
from tests.conftest import ROOT, daily_but
from tests.scene_factory import FLAGS, nerfmac, write_scene

pytestmark = [pytest.mark.browser, pytest.mark.slow]
RUNS = {
    "bench_idle": (("RUN", "--seconds", 0.5, "--turns", 1), {}),
    "bench_page": (
        ("RUN", "PAGE", "--image", "OUT.jpg"),
        {"TURNING": 0.5, "SIZE": (48, 30), "CAMERA_SIZE": (32, 20)},
    ),
    "bench_viewer": (("RUN", "--drags", 1, "--json", "OUT.json"), {"SECONDS": 0.5}),
    "moving_images": (("viewer", "OUT.webp"), {"SHOTS": 2, "LAST_STEP": 2}),
    "viewer_image": (
        ("RUN", "OUT.png", "--phone", "OUT2.webp"),
        {"PHONE": {"viewport": {"width": 39, "height": 84}}},
    ),
}
"""Arguments of each script, and the constants that make its work short."""
MAIN = """import sys
from unittest.mock import patch
import {script}
for name, value in {constants}.items():
    patch.object({script}, name, value).start()
{script}.main()
"""


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scripts")
    scene, run, page = write_scene(folder / "balls"), folder / "run", folder / "page.html"
    assert nerfmac("train", scene, *FLAGS, "--steps", 20, "--no-video", "--out", run) == 0
    assert nerfmac("export", run, page, "--device", "cpu") == 0
    return {"RUN": run, "PAGE": page}


@pytest.mark.parametrize("script", daily_but(RUNS, "bench_page"))
def test_a_script_runs(script, places, tmp_path):
    chromium("none")  # Skips the test without a browser.
    words, constants = RUNS[script]
    words = [str(word) for word in words]
    for name, path in {**places, "OUT": tmp_path / "out"}.items():
        words = [word.replace(name, str(path)) for word in words]
    code = f"import sys; sys.path[:0] = {[str(ROOT), str(ROOT / 'scripts')]}\n"
    code += MAIN.format(script=script, constants=constants)
    command = [sys.executable, "-c", code, *words]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert script == "bench_idle" or any(tmp_path.glob("out*"))
