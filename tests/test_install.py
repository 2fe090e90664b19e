"""What each command installs for its system, and the version of what is installed."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator

import mlx.core as mx
import pytest
from packaging.requirements import Requirement

from nerfmac.common.installing import extra_packages, pip_install
from nerfmac.version import UNKNOWN, version_of
from tests.conftest import ROOT

CPU, NVIDIA, MACOS = SYSTEMS = ("Linux, CPU", "Linux, NVIDIA GPU", "macOS")
COMMAND = re.compile(r"(?:\bpip install -e |\buv sync\b)[^\n#`&;]*")
BLOCK = re.compile(r"^```\n(.*?)^```", re.DOTALL | re.MULTILINE)
ROW = re.compile(r"""- \{ system: "(.+?)", runner: \S+, command: '(.+)' \}""")
LIBRARIES = {CPU: "mlx[cpu]", NVIDIA: "mlx[cuda13]"}
"""Requirements that install the library of MLX; on macOS, `mlx` contains it."""


TEXT = {"capture_output": True, "text": True}


def install_packages(extra: str) -> str:
    """Return the command that installs the packages of an extra here."""
    return pip_install(*extra_packages(extra))


def told() -> Iterator[tuple[str, str, str]]:
    """Yield document, system and command of each line of the documents' blocks that installs."""
    notebooks = sorted((ROOT / "notebooks").glob("*.ipynb"))
    for path in (*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/*.md")), *notebooks):
        text = path.read_text(encoding="utf-8")
        if path in notebooks:
            cells = json.loads(text)["cells"]
            text = "\n".join("".join(cell["source"]) for cell in cells)
        for line in "".join(BLOCK.findall(text)).splitlines():
            for command in COMMAND.findall(line):
                yield path.name, line.partition("# ")[2].strip(), command.strip()


def installed_by_ci() -> set[tuple[str, str]]:
    return set(ROW.findall((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8")))


def requirements(command: str) -> list[Requirement]:
    """Return what `command` installs, of this project's own requirements, on any system."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    groups = set()
    if command.startswith("uv "):
        extras = re.findall(r"--extra (\S+)", command)
        groups = {*project["tool"]["uv"]["default-groups"]}
        groups -= {*re.findall(r"--no-group (\S+)", command)}
    else:
        extras = [each for names in re.findall(r"\[(.+)\]", command) for each in names.split(",")]
    texts = [*project["project"]["dependencies"]]
    texts += [text for each in extras for text in project["project"]["optional-dependencies"][each]]
    texts += [text for each in groups for text in project["dependency-groups"][each]]
    return [Requirement(text) for text in texts]


def test_each_command_of_the_documents_says_for_which_system_it_is():
    commands = list(told())
    assert {system for _, system, _ in commands} == {*SYSTEMS}
    assert {"install.md", "1_quick_start.ipynb"} <= {document for document, _, _ in commands}


def test_ci_installs_what_the_documents_tell_and_nothing_else():
    assert {(system, command) for _, system, command in told()} == installed_by_ci()


@pytest.mark.parametrize(("system", "command"), sorted(installed_by_ci()))
def test_a_command_brings_the_one_library_of_mlx_that_its_system_needs(system, command):
    platform = {"sys_platform": "darwin" if system == MACOS else "linux"}
    here = [
        each for each in requirements(command) if not each.marker or each.marker.evaluate(platform)
    ]
    (mlx, *more) = (each.specifier for each in here if each.name == "mlx")
    assert all(each.contains("0.32.4") for each in (mlx, *more))
    if system != NVIDIA:
        assert not all(each.contains("0.33.0") for each in (mlx, *more)), "which was not tested"
    assert ("nanobind" in {each.name for each in here}) == (system == CPU)  # for the CPU kernels
    brought = {f"{each.name}[{extra}]" for each in here for extra in each.extras}
    assert brought == ({LIBRARIES[system]} if system in LIBRARIES else set())


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
