"""The version contains the commit of a copy of the files, or that it is unknown."""

import shutil
import subprocess
import sys

import pytest

from nerfmac.version import UNKNOWN, version_of
from tests.conftest import ROOT

SAY = "from nerfmac.version import version; print(version())"


@pytest.fixture
def git(tmp_path):
    """Return a function that runs git in a repository of one commit with the real version.py."""
    root = tmp_path / "checkout"
    (root / "nerfmac").mkdir(parents=True)
    (root / "nerfmac" / "__init__.py").touch()
    for name in ("nerfmac/version.py", ".gitattributes"):
        shutil.copy(ROOT / name, root / name)
    who = ("-c", "user.name=A", "-c", "user.email=a@b.c")

    def run(*words, **keywords):
        command = ["git", "-C", str(root), *who, *words]
        return subprocess.run(command, check=True, capture_output=True, **keywords).stdout.strip()

    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "One"]):
        run(*words)
    return run


def said(root):
    command = [sys.executable, "-P", "-c", SAY]
    done = subprocess.run(
        command, env={"PYTHONPATH": str(root)}, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_a_checkout_is_named_by_its_tag_its_commit_and_whether_files_differ(git, tmp_path):
    root = tmp_path / "checkout"
    head = f"g{git('rev-parse', '--short', 'HEAD').decode()}"
    assert version_of(root, "") == f"0.0.0+{head}"
    git("tag", "latest")  # no version's
    assert version_of(root, "") == f"0.0.0+{head}"
    git("tag", "v0.2.0")
    assert version_of(root, "") == "0.2.0"
    (root / "nerfmac" / "__init__.py").write_text("one = 1\n")
    assert version_of(root, "") == "0.2.0+dirty"
    git("commit", "-q", "-a", "-m", "Two")
    head = f"g{git('rev-parse', '--short', 'HEAD').decode()}"
    assert version_of(root, "") == f"0.2.0+1.{head}"
    (root / "nerfmac" / "__init__.py").unlink()
    assert version_of(root, "") == f"0.2.0+1.{head}.dirty"


@pytest.mark.parametrize("tag", [None, "v0.2.0"])
def test_an_archive_of_git_is_named_like_the_checkout(git, tmp_path, tag):
    if tag:
        git("tag", tag)
    (tmp_path / "copy").mkdir()
    git("archive", "-o", str(tmp_path / "copy.tar"), "HEAD")
    shutil.unpack_archive(tmp_path / "copy.tar", tmp_path / "copy", filter="data")
    expected = tag[1:] if tag else f"0.0.0+g{git('rev-parse', '--short', 'HEAD').decode()}"
    assert said(tmp_path / "copy") == expected


def test_a_bare_copy_does_not_take_the_version_of_another_installation(tmp_path):
    (tmp_path / "nerfmac").mkdir()
    (tmp_path / "nerfmac" / "__init__.py").touch()
    shutil.copy(ROOT / "nerfmac" / "version.py", tmp_path / "nerfmac")
    assert said(tmp_path) == UNKNOWN


def test_an_unpacked_sdist_and_an_installation_have_the_version_they_were_built_with(tmp_path):
    text = "Metadata-Version: 2.4\nName: nerfmac\nVersion: 0.3.0\n"
    sdist, site = tmp_path / "sdist", tmp_path / "site"
    for folder, name in ((sdist, "PKG-INFO"), (site / "nerfmac-0.3.0.dist-info", "METADATA")):
        folder.mkdir(parents=True)
        (folder / name).write_text(text)
    assert version_of(sdist, "v0.1.0|557ba1e") == version_of(site, "") == "0.3.0"


def test_the_version_is_computed_when_it_is_asked_for_and_not_before():
    code = (
        "import sys; sys.addaudithook(lambda event, _: event == 'subprocess.Popen' and sys.exit(9))"
        "\nimport nerfmac, nerfmac.app.cli; print(nerfmac.version.version.cache_info().misses)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "0\n"
