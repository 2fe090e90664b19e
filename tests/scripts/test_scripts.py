"""Every script runs: here with little work, or in the test or the step of CI that is listed."""

import os
import subprocess
import sys

import pytest
from PIL import Image

from tests.app.capture import corner
from tests.conftest import ROOT, daily_but
from tests.scene_factory import FLAGS, nerfmac, write_scene

SCRIPTS = ROOT / "scripts"
ELSEWHERE = {
    "apt.sh": "scripts/install_clang.sh",
    "bench_idle.py": "tests/app/viewer/notebook/test_scripts.py",
    "bench_page.py": "tests/app/viewer/notebook/test_scripts.py",
    "bench_viewer.py": "tests/app/viewer/notebook/test_scripts.py",
    "moving_images.py": "tests/app/viewer/notebook/test_scripts.py",
    "viewer_image.py": "tests/app/viewer/notebook/test_scripts.py",
    "blender_cameras.py": "tests/app/export/test_points.py",
    "check_install.sh": "tests/repository/test_wheel.py",
    "compare_torch.py": "CONTRIBUTING.md",
    "compile_metal.py": "scripts/first_mac.sh",
    "crash.py": "tests/trust/test_full_disk.py",
    "documentation.py": "mkdocs.yml",
    "field_comments.py": "mkdocs.yml",
    "first_mac.sh": "tests/repository/test_first_mac.py",
    "local_ranks.py": "tests/ranks/test_ranks.py",
    "pose_differences.py": "scripts/judge_captures.py",
    "probe_metal.py": "scripts/first_mac.sh",
    "prose_check.py": "Makefile",
    "rendered_captures.py": "scripts/judge_captures.py",
    "slow_gpu.py": "tests/training/test_pace.py",
    "slow_network.py": "scripts/bench_viewer.py",
    "soak.py": "tests/trust/test_signals.py",
    "still_life.py": "scripts/make_scene.py",
    "still_life_surfaces.py": "tests/app/run/test_surfaces.py",
    "strip_notebooks.py": "tests/repository/test_notebooks.py",
    "trials.py": "scripts/judge.py",
}
"""The file that names and runs each script that is not run here: a test, another script that a test
runs, the configuration of the site, which a test builds, the Makefile, whose target `lint` is a
part of CI, or the guide that describes how to run the tests of the script."""
CPU = ("--device", "cpu")
RUNS = {
    "bench_scaling.py": (1, "--scene", "SCENE", "--seconds", 1, *CPU, "--preset", "tiny"),
    "bench_session.py": ("RUN", "--size", "64x48", "--seconds", 0.1, *CPU),
    "fuzz.py": ("ply", "--executions", 4, "--blind", "--out", "OUT"),
    "judge.py": ("SCENE:seconds=1", "--seeds", 1, "--preset", "tiny", *CPU),
    "judge_captures.py": ("PHOTOS:matching=exhaustive,focal_35mm=28",),
    "make_scene.py": ("--out", "OUT", "--size", 16, "--views", 1, 0, 0),
    "model_curves.py": ("SCENE", "--seconds", 1, *CPU, "--preset", "tiny"),
    "render_video.py": ("RUN", "--frames", 2, "--size", "32x24", "--out", "OUT.mp4", *CPU),
    "train.py": ("SCENE", *FLAGS, "--steps", 4, "--no-video", "--out", "OUT"),
}
"""Arguments with which each script is run here. Upper-case words are replaced by paths."""
INSTALL = ("install_chromium.sh", "install_clang.sh")
"""Scripts that install programs; here they find one, or refuse one."""


def test_every_script_is_run_by_something():
    there = {path.name for path in SCRIPTS.iterdir() if path.is_file()}
    assert there == {*ELSEWHERE, *RUNS, *INSTALL}
    for script, place in ELSEWHERE.items():
        name = script.removesuffix(".py")
        assert name in (ROOT / place).read_text(), f"{place} does not name {script}"
        if place.startswith("scripts/"):
            assert place.removeprefix("scripts/") in {*ELSEWHERE, *RUNS, *INSTALL}


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Paths for the upper-case words in the arguments of the scripts."""
    folder = tmp_path_factory.mktemp("scripts")
    scene, run, photos = write_scene(folder / "balls"), folder / "run", folder / "photos"
    assert nerfmac("train", scene, *FLAGS, "--steps", 20, "--no-video", "--out", run) == 0
    return {"SCENE": scene, "RUN": run, "PHOTOS": photos, "OUT": folder / "out"}


@pytest.mark.parametrize(
    "script", daily_but(RUNS, "fuzz.py", "make_scene.py", "render_video.py", "train.py")
)
def test_a_script_runs(script, places, tmp_path):
    if script == "judge_captures.py":
        pytest.importorskip("pycolmap")
        places["PHOTOS"].mkdir()
        for number, camera in enumerate(corner.cameras(6)):
            photo = places["PHOTOS"] / f"{number}.png"
            Image.fromarray(corner.seen(camera)).save(photo)
    words = [str(word) for word in RUNS[script]]
    for name, path in {**places, "OUT": tmp_path / "out"}.items():
        words = [word.replace(name, str(path)) for word in words]
    said = ran(sys.executable, SCRIPTS / script, *words, cwd=tmp_path)
    assert said.stdout
    if "OUT" in str(RUNS[script]) and script != "fuzz.py":  # It writes only what it finds.
        assert any(tmp_path.glob("out*"))


def ran(*command, cwd, code=0, **variables):
    """Run a program and return what it said."""
    words, variables = [str(word) for word in command], os.environ | variables
    said = subprocess.run(words, cwd=cwd, env=variables, capture_output=True, text=True)
    assert said.returncode == code, said.stderr
    return said


@pytest.mark.parametrize("script", INSTALL)
def test_a_script_that_installs_refuses_a_program_that_is_none(script, tmp_path):
    variable = {"install_chromium.sh": "NERFMAC_CHROMIUM", "install_clang.sh": "NERFMAC_CLANG"}
    named = {variable[script]: str(tmp_path / "none")}
    said = ran("bash", SCRIPTS / script, cwd=tmp_path, code=1, **named)
    assert f"{script}: {variable[script]}={tmp_path / 'none'} is no" in said.stderr
