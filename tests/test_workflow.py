"""CI on the hosted Macs: the compiler judges, the GPU, which is no real Mac's, shows and keeps.

The steps' own lines of shell run here too, with stand-ins for what only a Mac has, so that a typing
error in one of them is found before it costs a run.
"""

import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.conftest import ROOT

COMPUTES = re.compile(r"scripts/\w+\.py|nerfmac (?:selftest|train|bench|profile|tune)|pytest")
EXPRESSION = re.compile(r"\$\{\{\s*matrix\.runner\s*\}\}")
JOBS = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))["jobs"]
ON_MACS = ("apple-compiler", "macos")
STEPS = [
    pytest.param(step, id=f"{job}: {step['name']}")
    for job in ON_MACS
    for step in JOBS[job]["steps"]
    if "run" in step
]

XCRUN = """#!/bin/sh
[ "$1 $2" = "-sdk macosx" ] || exit 9
case "$3" in metal | metallib | metal-tt) ;; *) exit 9;; esac
case "$*" in
  *--version) echo "Apple metal version 32023.404 (a stand-in)"; exit;;
  *-std=metal4.0*) echo "error: invalid value 'metal4.0'" >&2; exit 1;;
esac
while [ $# -gt 0 ]; do
  case "$1" in -c) [ -r "$2" ] || exit 8;; -o) : > "$2"; exit;; esac
  shift
done
exit 7
"""
# Long verbs are only asked whether they know their flags; the others do what they are told.
NERFMAC = """
import sys
from importlib import import_module
import tyro
import nerfmac.cli
verb, *words = sys.argv[1:]
if verb == "info" or "--dump-metal" in words:
    raise SystemExit(nerfmac.cli.main([verb, *words]))
tyro.cli(import_module(f"nerfmac.cli.{verb}").Arguments, args=words)
print("known:", verb, *words)
"""
PYTHON = f"""#!/bin/sh
case "$2" in venv) mkdir -p .venv/bin; cp "$0" .venv/bin/python; exit;; pip|pytest) exit;; esac
exec {sys.executable} "$@"
"""


def names_of(step: dict) -> list[str]:
    return [line for line in step["run"].splitlines() if COMPUTES.search(line)]


def test_a_hosted_macs_gpu_alone_makes_no_push_red_and_its_compiler_does():
    assert JOBS["macos"].get("continue-on-error") is True
    assert "continue-on-error" not in JOBS["apple-compiler"]
    for job in ON_MACS:
        assert JOBS[job]["strategy"]["matrix"]["runner"] == ["macos-15", "macos-26"]
        for step in JOBS[job]["steps"]:
            assert "continue-on-error" not in step
            assert "timeout-minutes" in step or "uses" in step, step


def test_what_the_hosted_gpu_can_do_is_told_before_anything_computes_on_it():
    steps = [step for step in JOBS["macos"]["steps"] if "run" in step]
    computing = [line for step in steps for line in names_of(step)]
    assert len(computing) > 5
    assert "python scripts/probe_metal.py" in computing[0]
    names = [step["name"] for step in steps]
    assert names.index("What its GPU can do") < names.index("What the machine is")
    assert names.index("A short training run") < names.index("Tests")
    for step in steps:
        needs_gpu = "--device metal" in step["run"] or "nerfmac train" in step["run"]
        assert needs_gpu == ("steps.probe.outputs.gpu == 'yes'" in step.get("if", ""))


def test_no_job_chooses_a_python_where_a_user_would_not():
    uses = [step.get("uses", "") for step in JOBS["any-python"]["steps"]]
    assert not any(each.startswith("actions/setup-python") for each in uses)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A folder with the repository's own files, and a PATH of stand-ins in front."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("nerfmac", "kernels", "scripts", "data", "pyproject.toml"):
        (folder / name).symlink_to(ROOT / name)
    programs = {
        "python": PYTHON,
        "xcrun": XCRUN,
        "nerfmac": f"#!{sys.executable}\n{NERFMAC}",
        "sw_vers": "#!/bin/sh\necho ProductVersion: 15.5\n",
        "xcodebuild": "#!/bin/sh\nexit 1\n",
    }
    (folder / "bin").mkdir()
    for name, text in programs.items():
        path = folder / "bin" / name
        path.write_text(text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return folder


@pytest.mark.parametrize("step", STEPS)
def test_the_shell_of_a_step_runs(step, checkout):
    environment = {
        **os.environ,
        **{key: str(value) for key, value in step.get("env", {}).items()},
        "PATH": f"{checkout / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        **{name: str(checkout / name) for name in ("GITHUB_PATH", "GITHUB_OUTPUT")},
        "GITHUB_STEP_SUMMARY": str(checkout / "summary"),
    }
    script = EXPRESSION.sub("macos-15", step["run"])
    assert "${{" not in script
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    done = subprocess.run(
        command, cwd=checkout, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_typing_error_in_a_step_would_be_found(checkout):
    step = next(
        step for step in JOBS["macos"]["steps"] if step.get("name") == "A short training run"
    )
    broken = {**step, "run": step["run"].replace("--steps", "--stesp")}
    assert broken != step
    with pytest.raises(AssertionError, match="stesp"):
        test_the_shell_of_a_step_runs(broken, checkout)
    assert Path(checkout / "metal-macos-15.json").is_file()
    assert "metal3.1" in (checkout / "summary").read_text()
