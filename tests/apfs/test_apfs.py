"""File names in a folder that compares them as APFS does, where Linux has a C compiler."""

import subprocess
import sys

import pytest

from tests.apfs.shim import MISSING, build, environment, is_available
from tests.conftest import ROOT

pytestmark = pytest.mark.skipif(not is_available(), reason=MISSING)
FEW = ("tests/app/scenes/test_image_names.py", "tests/common/test_spelling.py")
APFS = """
import errno, os, shutil
from pathlib import Path

os.mkdir("Küche")
Path("Küche/IMG_1.jpg").write_text("a photo")
for folder in ("Küche", "Ku\\u0308che", "KÜCHE"):
    assert Path(folder, "img_1.JPG").read_text() == "a photo"
    assert os.listdir(folder) == ["IMG_1.jpg"]
    assert os.path.samefile(folder, "Küche")
    assert folder == "Küche" or not os.path.lexists(f"outside/{folder}")
assert not os.path.exists("Küche/img_2.jpg")
os.rename("küche/img_1.jpg", "küche/img_1.jpg")
assert os.listdir("Küche") == ["img_1.jpg"]
os.symlink("Küche", "link")
assert Path("LINK/IMG_1.jpg").is_file()
for call in (os.stat, os.mkdir, os.unlink, open):
    try:
        call(b"\\xff")
    except OSError as error:
        assert error.errno == errno.EILSEQ
    else:
        raise AssertionError(call)
shutil.rmtree("KU\\u0308CHE")
assert os.listdir(".") == ["link"]
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return build(tmp_path_factory.mktemp("apfs"))


def test_the_folder_compares_names_as_apfs(library, tmp_path):
    variables = environment(library, tmp_path)
    subprocess.run([sys.executable, "-c", APFS], env=variables, cwd=tmp_path, check=True)
    (tmp_path / "outside").mkdir()
    ordinary = "import os; assert not os.path.exists('OUTSIDE')"
    subprocess.run([sys.executable, "-c", ordinary], env=variables, cwd="/tmp", check=True)
    subprocess.run([sys.executable, "-c", ordinary], cwd=tmp_path, check=True)


def test_a_few_tests_of_names_pass_there(library, tmp_path):
    """All tests of files are run by `python -m tests.apfs`."""
    command = [sys.executable, "-m", "pytest", "-q", "--basetemp", tmp_path / "tests", *FEW]
    variables = environment(library, tmp_path)
    ran = subprocess.run(command, env=variables, cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout
    assert "skipped" not in ran.stdout
