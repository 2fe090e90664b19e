"""The complete self-test report of a machine; every variant is in it."""

import json

import mlx.core as mx
import pytest

from nerfmac.app.measure.launches import Launched
from nerfmac.app.measure.selftest import cases
from nerfmac.app.measure.selftest import report as found_out
from nerfmac.app.measure.selftest.report import FINDINGS, Findings, Report
from nerfmac.app.measure.selftest.specializations import specializations
from nerfmac.app.measure.timing import Ceilings
from nerfmac.app.measure.tuning import Tried, Tuned
from nerfmac.backend import choose_device, device
from nerfmac.backend.variants import VARIANTS
from tests.scene_factory import CONFIG


@pytest.fixture(scope="module")
def findings(balls):
    """Run the self-test on this CPU with a small scene and replacements for slow parts."""
    choose_device("cpu")
    ceilings = Ceilings(2e9, 3e10, "not at all")
    tuned = Tuned("march_count", "two", [Tried("four", error=0.0), Tried("two", fault="no")])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(found_out, "measure_ceilings", lambda _: ceilings)
        patch.setattr(found_out, "try_variants", lambda *_, **__: [tuned])
        patch.setattr(found_out, "preset", lambda *_: CONFIG)
        patch.setattr(found_out, "builtin_scene_path", lambda: balls)
        machine = Findings(0.2)
        return {name: machine.find(name) for name in FINDINGS}


def test_training_has_the_variants_that_were_found(findings):
    training = findings["training"]
    assert training["variants"]["march_count"] == "two"
    assert training["steps"] > 0
    assert training["seconds"] >= 0.2
    assert training["step_ms"] == pytest.approx(1e3 * training["seconds"] / training["steps"])
    assert 5 < training["psnr"] < 40


def test_each_kernel_of_an_update_a_step_and_a_image_is_timed(findings):
    timed = {(each["computation"], each["function"]): each for each in findings["kernels"]}
    assert len(timed) == len(findings["kernels"])
    assert {computation for computation, _ in timed} == {"update", "step", "image"}
    assert {("image", "trace"), ("step", "adam"), ("update", "occupancy_splat")} <= set(timed)
    for each in timed.values():
        time = each["milliseconds"]
        assert 0 < time["low"] <= time["median"] <= time["high"]
        speed = each["bytes"] / time["median"] / 1e6
        assert each["gigabytes_per_second"] == pytest.approx(speed)
    assert timed["step", "hash_encode_table_gradient"]["float_atomics"] > 0


def test_the_longest_launch_is_that_of_the_slowest_kernel(findings):
    watched, kernels = findings["watchdog"], findings["kernels"]
    assert watched["longest_ms"] == max(each["milliseconds"]["median"] for each in kernels)
    assert watched["margin"] == pytest.approx(100.0 / watched["longest_ms"])
    assert watched["launch"] in {f"{e['computation']}, {e['function']}" for e in kernels}


def launched(error):
    def build(**call):
        assert call["threadgroup"] == (2048, 1, 1)
        assert call["grid"] == (64, 1, 1)
        if error:
            raise error
        return [mx.zeros(1)]

    return Launched(build, {"grid": (64, 1, 1), "threadgroup": (32, 1, 1)}, [])


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (
            "Thread group size (2048) is greater than  the maximum allowed threads per "
            "threadgroup (384).",
            384,
        ),
        ("out of memory", None),
        (None, None),
    ],
)
def test_a_pipelines_threads_are_read_from_the_refusal_of_a_larger_group(error, expected):
    choose_device("cpu")
    assert found_out.most_threads(launched(AssertionError("it was launched"))) is None
    with device.pretended("metal"):
        assert found_out.most_threads(launched(error and ValueError(error))) == expected


def test_a_fault_is_kept_and_fails_the_device(tmp_path):
    choose_device("cpu")
    report = Report(tmp_path / "report.json")
    report.begin_device()
    report.add("ceilings", {"bandwidth": float("inf"), "rate": 2.0})
    assert report.passed
    report.add("training", {"fault": "RuntimeError: out of memory"}, passed=False)
    assert not report.passed
    (only,) = json.loads(report.path.read_text())["devices"]
    assert only["ceilings"] == {"bandwidth": None, "rate": 2.0}


GRADIENTS = {
    "float": "hash_encode_table_gradient__4_3_",
    "summed": "hash_encode_table_gradient__4_1_",
    "fixed": "hash_encode_table_units__4_3_",
}


@pytest.fixture(params=["", "hash_encode_gradient=fixed,march_count=two"])
def chosen(request, monkeypatch):
    choose_device("cpu")
    monkeypatch.setenv("NERFMAC_VARIANTS", request.param)


@pytest.mark.usefixtures("chosen")
def test_every_variant_is_reachable_as_metal_text():
    names = set(specializations())
    for way, begin in GRADIENTS.items():
        assert any(name.startswith(begin) for name in names), way
    for interleaved in (1, 2, 4):
        assert any(name.startswith(f"march_count__{interleaved}_") for name in names)


@pytest.mark.usefixtures("chosen")
def test_every_variant_has_cases():
    names = [case.name for case in cases()]
    for variants in VARIANTS.values():
        for way in variants.all:
            assert way == "float" or any(name.startswith(f"{way}-") for name in names), way
