"""What each command installs for its system, and the version of what is installed."""

import shutil
import subprocess
import sys

import mlx.core as mx
import pytest

from nerfmac.common.installing import extra_packages, pip_install
from nerfmac.version import version_of
from tests.conftest import ROOT

TEXT = {"capture_output": True, "text": True}


def install_packages(extra: str) -> str:
    """Return the command that installs the packages of an extra here."""
    return pip_install(*extra_packages(extra))


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere MLX carries its library")
@pytest.mark.parametrize(
    ("library", "names"),
    [
        ("libmlx.so", ["extra cpu", *map(install_packages, ("cpu", "cuda"))]),
        ("libcuda.so.1", ["driver, libcuda.so.1", "the extra cpu instead of cuda"]),
    ],
)
def test_without_a_library_one_line_says_what_to_install(tmp_path, library, names):
    bare = tmp_path / "mlx"
    bare.mkdir()
    if library == "libmlx.so":  # missing if only the package `mlx` is installed
        shutil.copy(mx.__file__, bare)
    else:  # the loader's message; a library that really needs the driver has a gigabyte
        failure = f"{library}: cannot open shared object file: No such file or directory"
        (bare / "core.py").write_text(f"raise ImportError({failure!r})")
    code = f"import sys; sys.path[:0] = {[str(tmp_path), str(ROOT)]}; import nerfmac"
    asked = subprocess.run([sys.executable, "-c", f"{code}; nerfmac.train"], **TEXT)
    typed = "from nerfmac.app.cli import main; main(['info'])"
    ran = subprocess.run([sys.executable, "-c", f"{code}; {typed}"], **TEXT)
    assert (asked.returncode, ran.returncode) == (1, 2)
    last = asked.stderr.splitlines()[-1]
    assert last.startswith("ImportError: MLX ")
    assert asked.stderr.count("Traceback") == 1
    assert ran.stderr == f"nerfmac: {last.removeprefix('ImportError: ')}\n"
    for name in names:
        assert name in last


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


def test_an_unpacked_sdist_and_an_installation_have_the_version_they_were_built_with(tmp_path):
    text = "Metadata-Version: 2.4\nName: nerfmac\nVersion: 0.3.0\n"
    sdist, site = tmp_path / "sdist", tmp_path / "site"
    for folder, name in ((sdist, "PKG-INFO"), (site / "nerfmac-0.3.0.dist-info", "METADATA")):
        folder.mkdir(parents=True)
        (folder / name).write_text(text)
    assert version_of(sdist, "v0.1.0|557ba1e") == version_of(site, "") == "0.3.0"
