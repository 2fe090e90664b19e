"""The published package, and CI on hosted Macs."""

import os
import re
import subprocess
import tomllib
from importlib import metadata

import pytest
import yaml
from packaging.requirements import Requirement

from hatch_build import CustomMetadataHook
from tests.conftest import ROOT
from tests.stand_ins import NERFMAC, PYTHON, XCRUN, write_programs

HOME = "https://example.com/somebody/nerfmac"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def page(monkeypatch, **variables):
    """Return the metadata that the hook adds with the environment variables of GitHub."""
    for name in ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_REF_NAME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    filled = {}
    CustomMetadataHook(str(ROOT), {}).update(filled)
    return filled


def test_the_page_of_a_release_has_addresses_that_lead_to_files(monkeypatch):
    server, _, repository = HOME.partition("/somebody")
    filled = page(
        monkeypatch,
        GITHUB_SERVER_URL=server,
        GITHUB_REPOSITORY=f"somebody{repository}",
        GITHUB_REF_NAME="v1.2.3",
    )
    assert all(address.startswith(HOME) for address in filled["urls"].values())
    text = filled["readme"]["text"]
    led = re.findall(rf"{HOME}/(raw|blob)/v1\.2\.3/([^)\s\"#]+)", text)
    assert len(led) >= 3
    for kind, name in led:
        assert (ROOT / name).exists(), name
        assert (kind == "raw") == name.endswith((".png", ".jpg", ".gif", ".webp", ".svg")), name
    addresses = re.findall(r"\]\(([^)\s]+)|(?:src|srcset|href)=\"([^\"]+)", text)
    for address in map("".join, addresses):
        assert address.startswith(("https://", "#")), address


def required():
    """Return the names of all installed packages, and the extra that requires each; "" for all."""
    lists = {"": PROJECT["dependencies"], **PROJECT["optional-dependencies"]}
    pairs = [(Requirement(text).name, extra) for extra, texts in lists.items() for text in texts]
    return dict(reversed(pairs))


def licenses():
    """Return package, purpose, and license from each row of THIRD_PARTY.md."""
    text = (ROOT / "THIRD_PARTY.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\S+)` \| (.+?) \| (.+?) \|", text, re.MULTILINE)
    return {name: (purpose, license) for name, purpose, license in rows}


def test_each_package_that_is_brought_is_listed_with_what_it_is_for_and_its_license():
    told = licenses()
    assert {*told} == {*required()}
    for name, extra in required().items():
        purpose, license = told[name]
        assert f"`{extra}`" in purpose if extra else purpose.startswith("always"), name
        try:
            declared = metadata.metadata(name)
        except metadata.PackageNotFoundError:
            continue
        fields = [declared["License-Expression"], declared["License"]]
        fields += declared.get_all("Classifier") or []
        if not any("license" in field.lower() for field in filter(None, fields)):
            fields.append(declared.get_payload())  # The description of OpenEXR names its license.
        assert re.split(r"[-']", license)[0] in " ".join(filter(None, fields)), name


def test_every_released_version_in_the_changelog_has_its_day():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    first, *released = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert first == "[Unreleased]"
    assert released
    for heading in released:
        assert re.fullmatch(r"\[\d+\.\d+\.\d+\] - 20\d\d-\d\d-\d\d", heading), heading


EXPRESSION = re.compile(r"\$\{\{\s*matrix\.runner\s*\}\}")
JOBS = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))["jobs"]
ON_MACS = ("apple-compiler", "macos")
STEPS = [
    pytest.param(step, id=f"{job}: {step['name']}")
    for job in ON_MACS
    for step in JOBS[job]["steps"]
    if "run" in step
]


def test_a_hosted_macs_gpu_alone_makes_no_push_red_and_its_compiler_does():
    assert JOBS["macos"].get("continue-on-error") is True
    assert "continue-on-error" not in JOBS["apple-compiler"]
    for job in ON_MACS:
        assert JOBS[job]["strategy"]["matrix"]["runner"] == ["macos-15", "macos-26"]
        for step in JOBS[job]["steps"]:
            assert "continue-on-error" not in step
            assert "timeout-minutes" in step or "uses" in step, step


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A folder with the repository's own files, and a PATH of stand-ins in front."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("nerfmac", "kernels", "scripts", "data", "pyproject.toml"):
        (folder / name).symlink_to(ROOT / name)
    programs = {
        "python": PYTHON,
        "xcrun": XCRUN,
        "nerfmac": NERFMAC,
        "sw_vers": "#!/bin/sh\necho ProductVersion: 15.5\n",
        "xcodebuild": "#!/bin/sh\nexit 1\n",
    }
    write_programs(folder, programs)
    return folder


@pytest.mark.parametrize("step", STEPS)
def test_the_shell_of_a_step_runs(step, checkout):
    environment = {
        **os.environ,
        **{key: str(value) for key, value in step.get("env", {}).items()},
        "PATH": f"{checkout / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        **{name: str(checkout / name) for name in ("GITHUB_PATH", "GITHUB_OUTPUT", "GITHUB_ENV")},
        "GITHUB_STEP_SUMMARY": str(checkout / "summary"),
    }
    script = EXPRESSION.sub("macos-15", step["run"])
    assert "${{" not in script
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    done = subprocess.run(
        command, cwd=checkout, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
