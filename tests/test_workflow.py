"""CI on the hosted Mac, whose GPU is no real Mac's: it shows and keeps, but does not judge."""

import re

import pytest
import yaml

from tests.conftest import ROOT

COMPUTES = re.compile(r"scripts/\w+\.py|nerfmac (?:selftest|train|bench|profile|tune)|pytest")


@pytest.fixture(scope="module")
def hosted_mac():
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))
    return workflow["jobs"]["macos"]


def test_the_hosted_mac_alone_makes_no_push_red(hosted_mac):
    assert hosted_mac["runs-on"].startswith("macos-")
    assert hosted_mac.get("continue-on-error") is True


def test_what_the_hosted_gpu_can_do_is_told_before_anything_computes_on_it(hosted_mac):
    computing = [
        step["run"] for step in hosted_mac["steps"] if COMPUTES.search(step.get("run", ""))
    ]
    assert len(computing) > 3
    assert "python scripts/probe_metal.py" in computing[0]
    assert (ROOT / "scripts/probe_metal.py").is_file()
