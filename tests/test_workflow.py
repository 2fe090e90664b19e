"""CI on hosted Macs: the compiler decides; the virtual GPU only reports and stores results.

The shell lines of the steps also run here, with replacements for programs that only a Mac has, so
that typing errors in them are found without a CI run.
"""

import os
import re
import subprocess

import pytest
import yaml

from tests.conftest import ROOT
from tests.stand_ins import NERFMAC, PYTHON, XCRUN, write_programs

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
