"""What a whole report says of a machine, and the rows that are made of it."""

import json

import mlx.core as mx
import pytest
import report_rows

from nerfmac.app.measure.bench.roofline import chip_named
from nerfmac.app.measure.ceilings import Ceilings
from nerfmac.app.measure.launches import Launched
from nerfmac.app.measure.selftest import report as found_out
from nerfmac.app.measure.selftest.report import FINDINGS, Findings, Report, in_words
from nerfmac.app.measure.tuning import Tried, Tuned
from nerfmac.backend import choose_device, device
from tests.scene_factory import CONFIG


@pytest.fixture(scope="module")
def findings(balls):
    """What is found on this CPU with a small scene, and what takes time replaced."""
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


def test_each_kernel_of_an_update_a_step_and_a_picture_is_timed(findings):
    timed = {(each["computation"], each["function"]): each for each in findings["kernels"]}
    assert len(timed) == len(findings["kernels"])
    assert {computation for computation, _ in timed} == {"update", "step", "picture"}
    assert {("picture", "trace"), ("step", "adam"), ("update", "occupancy_splat")} <= set(timed)
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


def test_a_step_is_compared_with_its_estimate_by_this_machines_ceilings(findings):
    found = findings["prediction"]
    assert found["chip"] == {
        **{"name": "measured", "bandwidth": 2.0, "rate": 0.03},
        "generation": None,
    }
    assert 0 < found["cached_ms"] <= found["uncached_ms"]
    assert found["measured_ms"] == findings["training"]["step_ms"]
    over = found["measured_ms"] / found["cached_ms"]
    assert found["measured_over_cached"] == pytest.approx(over)


def test_each_finding_has_a_line(findings):
    lines = {name: in_words(name, values) for name, values in findings.items()}
    assert lines["ceilings"] == "2 GB/s, 0.03 TFLOPS"
    assert lines["variants"] == "march_count=two"
    assert f"{findings['training']['psnr']:.2f} dB" in lines["training"]
    assert len(lines["kernels"].splitlines()) == 1 + len(findings["kernels"])
    assert findings["watchdog"]["launch"] in lines["watchdog"]
    for key in ("cached_ms", "uncached_ms", "measured_ms"):
        assert f"{findings['prediction'][key]:.2f}" in lines["prediction"]


@pytest.fixture(scope="module")
def on_an_m1(findings, balls):
    """What would be predicted of the same steps on a Mac."""
    choose_device("cpu")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(found_out, "preset", lambda *_: CONFIG)
        patch.setattr(found_out, "builtin_scene_path", lambda: balls)
        machine = Findings(0.2)
        machine._ceilings = Ceilings(2e9, 3e10, "not at all")
        machine.training()
        patch.setattr(found_out, "current_device", lambda: "metal")
        patch.setattr(found_out, "device_name", lambda: "Apple M1")
        return machine.prediction()


def test_a_macs_step_is_compared_with_its_chips_published_rates(on_an_m1, findings):
    assert on_an_m1["chip"] == {"name": "M1", "bandwidth": 68, "rate": 2.6, "generation": 13}
    # Memory is 34 times as fast as in the estimate of the same step at 2 GB/s and 0.03 TFLOPS;
    # atomic additions and launches cost what they cost on any M1.
    slower = findings["prediction"]["cached_ms"]
    assert 0.3 * slower * 2 / 68 < on_an_m1["cached_ms"] < slower
    assert "M1's published rates" in in_words("prediction", on_an_m1)


@pytest.mark.parametrize(
    ("name", "bandwidth"), [("Apple M1", 68), ("Apple M2 Ultra", 800), ("Apple M3 Max", 400)]
)
def test_an_apple_chip_is_known_by_its_name(name, bandwidth):
    assert chip_named(name).bandwidth == bandwidth


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
    with device.pretended("metal"):
        assert found_out.most_threads(launched(error and ValueError(error))) == expected


def test_threads_are_asked_for_on_metal_alone():
    choose_device("cpu")
    assert found_out.most_threads(launched(AssertionError("it was launched"))) is None


@pytest.fixture
def report(tmp_path, findings, on_an_m1):
    """A whole report, as that of a Mac."""
    choose_device("cpu")
    report = Report(tmp_path / "report.json")
    report.begin_device()
    for name, values in {**findings, "prediction": on_an_m1}.items():
        report.add(name, values)
    report.end()
    values = json.loads(report.path.read_text())
    (only,) = values["devices"]
    arrays = [{"array": "d table", "error": 1e-6, "passed": True}] * 3
    case = {"case": "one", "fault": None, "specialisations": ["a", "b"], "arrays": arrays}
    limits = [timed("networks_gradient", 384, 4.5), timed("adam", 1024, None)]
    only |= {"device": "metal", "device_name": "Apple M9", "cases": [case], "kernels": limits}
    only["variants"]["hash_encode_gradient"] = tried_variants()
    report.path.write_text(json.dumps(values | {"system": "macOS 99"}))
    return report.path


def timed(function, most_threads, gigaflops):
    ms = {"median": 3.0, "low": 2.0, "high": 4.0, "calls": 7}
    rates = {"gigabytes_per_second": 0.5, "gigaflops": gigaflops}
    return {
        "function": function,
        "computation": "step",
        "most_threads": most_threads,
        "milliseconds": ms,
        **rates,
    }


def tried_variants():
    ms = {"low": 1.0, "high": 4.0, "calls": 7}
    names = {"float": {"median": 3.0, **ms}, "fixed": {"median": 2.0, **ms}}
    tried = {
        name: {"ms": each, "ratio": 0.5, "ratio_at_most": 0.6, "fault": None}
        for name, each in names.items()
    }
    return {"chosen": "fixed", "tried": tried}


def test_a_report_becomes_rows_of_both_tables(report, findings, on_an_m1, capsys):
    assert report_rows.main([str(report)]) == 0
    said = capsys.readouterr().out
    training = findings["training"]
    machine = f"Apple M9, MLX {mx.__version__}"
    quality = f"{training['psnr']:.2f} dB | {training['ssim']:.3f}"
    steps = f"{training['seconds']:.0f} s | {training['steps']:,}"
    assert f"| still_life | {machine} | `nerfmac selftest --report` | {steps} | {quality} |" in said
    assert f"{machine}, macOS 99, nerfmac " in said
    ratios = "0.50, at most 0.60 |"
    assert f"| hash_encode_gradient | **fixed** | 2.000 ms (1.000 to 4.000) | {ratios}" in said
    assert "| march_count | **two** | fails: no | |" in said
    assert "| the highest rates | | 2 GB/s | 30 GFLOPS | |" in said
    launch = "| 3.000 ms (2.000 to 4.000) | 0.5 GB/s, 25% | 4.5 GFLOPS, 15% | 384 |"
    assert f"| step, networks_gradient {launch}" in said
    assert "| step, adam | 3.000 ms (2.000 to 4.000) | 0.5 GB/s, 25% |  | 1024 |" in said
    longest = findings["watchdog"]["longest_ms"]
    assert f"The longest launch took {longest:.1f} ms (" in said
    step, over = on_an_m1["measured_ms"], on_an_m1["measured_over_cached"]
    assert f"A step took {step:.2f} ms, {over:.1f} times the least that was predicted: " in said
    assert "ms by an M1's published rates." in said
    where = "settled on Apple M9, macOS 99, by report.json |"
    for row in (
        f"| It is in the language ... | ... | Apple's compiler took 2 texts; {where}",
        f"| Results and gradients equal ... | ... | 3 arrays agree; {where}",
        "| The grid is exact ... | ... | the least that a pipeline allows is 384 threads "
        f"(networks_gradient); {where}",
        "| Sums do not depend on the order ... | ... | float 3.00 ms, fixed 2.00 ms; " + where,
    ):
        assert row in said


def test_the_rows_that_a_report_settles_are_rows_of_the_table(report):
    table = (report_rows.Path(__file__).parents[3] / "CONTRIBUTING.md").read_text()
    values = json.loads(report.read_text())
    rows = list(report_rows.settled_rows(values["devices"][0], values, "report.json"))
    assert len(rows) == 6
    for row in rows:
        assert row.partition(" ...")[0] in table


def test_what_differs_or_is_no_mac_settles_nothing(report):
    values = json.loads(report.read_text())
    (only,) = values["devices"]
    assert not list(report_rows.settled_rows({**only, "device": "cuda"}, values, "report.json"))
    only["cases"][0]["arrays"][1]["passed"] = False
    only["not_run"] = ["c"]
    only["kernels"] = []
    rows = "".join(report_rows.settled_rows(only, values, "report.json"))
    assert "agree" not in rows
    assert "texts" not in rows
    assert "threads" not in rows


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
    assert report_rows.found(only, "training") is None
    (_, heading) = report_rows.benchmark_rows({**only, "ceilings": None}, report.values)
    assert heading.startswith(f"{only['device_name']}, MLX {mx.__version__}, ")
