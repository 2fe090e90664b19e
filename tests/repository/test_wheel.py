"""The built wheel, outside of the repository, contains all files that are needed at run time."""

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from nerfmac.version import version

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.slow


def run(*command: str | Path, cwd: Path) -> str:
    """Return what `command` prints, in an environment without paths to the repository."""
    kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    given = [str(part) for part in command]
    done = subprocess.run(given, cwd=cwd, env=kept, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"{given}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=ROOT)
    (built,) = folder.glob("nerfmac-*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """Return the bin folder of a fresh environment with the wheel installed.

    The other packages come from this environment, through a path file, so that no package is
    downloaded. The path file comes after the wheel, and path files in that folder are ignored, so
    an editable nerfmac is not used.
    """
    folder = tmp_path_factory.mktemp("venv")
    run(sys.executable, "-m", "venv", folder, cwd=folder)
    python = folder / "bin" / "python"
    install = ("install", "--no-index", "--no-deps", "--no-compile")
    run(python, "-m", "pip", *install, wheel, cwd=folder)
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    purelib = run(python, "-c", where, cwd=folder)
    outer = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (Path(purelib.strip()) / "outer.pth").write_text("\n".join(sorted(outer)))
    return folder / "bin"


def test_every_kernel_dialect_and_image_of_the_repository_is_in_the_wheel(wheel):
    with zipfile.ZipFile(wheel) as archive:
        held = {Path(name) for name in archive.namelist()}
    for folder in ("kernels", "data/still_life"):
        files = [path for path in (ROOT / folder).rglob("*") if path.is_file()]
        wanted = [path.relative_to(ROOT) for path in files if path.suffix != ".pyc"]
        assert wanted, f"the repository has no {folder}"
        missing = [str(path) for path in wanted if "nerfmac" / path not in held]
        assert not missing, f"not in the wheel: {missing}"


def test_the_installed_wheel_finds_its_kernels_and_its_scene(installed, tmp_path):
    script = """
from importlib.resources import files
import nerfmac
home = files("nerfmac")
assert "site-packages" in str(home), f"this is not the wheel: {home}"
assert any(each.name.endswith(".metal") for each in (home / "kernels").iterdir())
assert any((home / "kernels" / "dialects").iterdir())
assert any((home / "data" / "still_life").iterdir())
assert {".js", ".css"} <= {each.suffix for each in (home / "app" / "viewer" / "page").iterdir()}
print(nerfmac.__version__)
"""
    assert run(installed / "python", "-c", script, cwd=tmp_path).strip() == version()


@pytest.mark.daily
def test_the_check_of_an_installation_passes(installed, tmp_path):
    """Each command as a user starts it; of the self-test, only the kernels of one operation."""
    for extra in ("pycolmap", "jupyterlab", "trimesh"):
        pytest.importorskip(extra)
    script = ROOT / "scripts" / "check_install.sh"
    run("bash", script, installed.parent, "--operation", "adam", cwd=tmp_path)
