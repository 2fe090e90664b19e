"""What a figure was made on names the commit, where what is installed is a checkout."""

import shutil
import subprocess

import pytest

from nerfmac.backend import choose_device, machine


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A repository with one commit that holds the package."""
    file = tmp_path / "nerfmac" / "backend" / "machine.py"
    file.parent.mkdir(parents=True)
    file.write_text("one = 1\n")
    git = ("git", "-C", str(tmp_path), "-c", "user.name=A", "-c", "user.email=a@b.c")
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "One"]):
        subprocess.run([*git, *words], check=True)
    monkeypatch.setattr(machine, "__file__", str(file))
    choose_device("cpu")
    machine._commit.cache_clear()
    yield file
    machine._commit.cache_clear()


def commit():
    machine._commit.cache_clear()
    return machine.software().get("nerfmac_commit")


def test_a_checkout_is_named_by_its_commit_and_whether_files_differ_from_it(checkout):
    root = checkout.parents[2]
    said = subprocess.run(
        ["git", "-C", str(root), "rev-parse", "HEAD"], capture_output=True, text=True, check=True
    )
    clean = commit()
    assert len(clean) >= 7
    assert said.stdout.startswith(clean)
    checkout.write_text("one = 2\n")
    assert commit() == f"{clean}-dirty"


def test_what_is_no_checkout_or_has_no_git_has_no_commit(checkout, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert commit() is None
    monkeypatch.undo()
    shutil.rmtree(checkout.parents[2] / ".git")
    monkeypatch.setattr(machine, "__file__", str(checkout))
    assert commit() is None
