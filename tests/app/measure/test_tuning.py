"""`nerfmac tune`'s choice: the quickest variant of those that are right."""

import io
import re

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten

from nerfmac.app.measure import tuning as choosing
from nerfmac.app.measure.selftest import Case
from nerfmac.app.measure.tuning import trials, tune
from nerfmac.backend import choose_device, variant, variants
from nerfmac.backend.variants import VARIANTS, is_tuned, tuned_for
from nerfmac.common.checks import InputError
from nerfmac.config import PRESETS, override

TINY = PRESETS["tiny"]
FOUR, TWO, EIGHT = VARIANTS["march_count"].on_cpu


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch, tmp_path):
    choose_device("cpu")
    monkeypatch.delenv("NERFMAC_VARIANTS", raising=False)
    monkeypatch.setattr(variants, "cache_folder", lambda: tmp_path)
    variants._stored.cache_clear()
    yield
    variants._stored.cache_clear()


SLOW = (1.0, 3.0, 1.1)


@pytest.fixture
def took(monkeypatch):
    """Simulate measured times: seconds by variant for three rounds, or lists with one per round."""

    def set_times(**seconds):
        def measure(timers, **_how):
            assert len(timers) == len(seconds)
            lists = [each if isinstance(each, list) else [each] * 3 for each in seconds.values()]
            slow = SLOW * (len(lists[0]) // 3)
            return [[a * b for a, b in zip(each, slow, strict=True)] for each in lists]

        monkeypatch.setattr(choosing, "measure_interleaved", measure)

    return set_times


@pytest.fixture
def trial(monkeypatch):
    """Replace the trials with one trial of marching; `compute` maps a variant to its results."""

    def set_trial(compute):
        case = Case("march", "trial", lambda: compute(variant("march_count")), 4)
        monkeypatch.setattr(choosing, "trials", lambda *_: iter([("march_count", case)]))

    return set_trial


def chosen_variant():
    with tuned_for(TINY):
        return variant("march_count")


def right(_way):
    return {"counts": mx.array([3.0, 4.0])}


def test_the_quickest_is_kept_for_what_follows(trial, took):
    trial(right)
    took(four=0.5, two=0.4, eight=0.2)
    (tuned,) = tune(TINY)
    assert tuned.chosen == chosen_variant() == EIGHT
    assert [each.ratio for each in tuned.tried] == [1.0, pytest.approx(0.8), pytest.approx(0.4)]
    assert tuned.tried[1].timing.median == pytest.approx(440.0)
    assert is_tuned(TINY)


# Nine rounds of a machine that others use: quicker by a tenth in the median, and by chance.
NOISY = [0.7, 1.2, 0.9, 1.3, 0.8, 1.1, 0.85, 0.9, 1.25]


def test_what_is_quicker_by_chance_is_not_kept(trial, took):
    trial(right)
    took(four=[1.0] * 9, two=NOISY, eight=[1.01] * 9)
    (tuned,) = tune(TINY)
    two = tuned.tried[1]
    assert two.ratio == 0.9
    # A quarter of the rounds are below 0.85, and one above 1.2; 3.14 * 0.35 / 3 is 0.366.
    assert two.at_most == pytest.approx(1.266, abs=1e-3)
    assert tuned.chosen == chosen_variant() == FOUR
    assert tuned.to_json()["tried"]["two"]["ratio_at_most"] == two.at_most


def test_what_is_steadily_quicker_is_kept_before_what_may_be(trial, took):
    trial(right)
    took(four=[1.0] * 9, two=NOISY, eight=[0.95, 0.96, 0.94] * 3)
    (tuned,) = tune(TINY)
    assert tuned.chosen == EIGHT
    assert tuned.tried[2].ratio > tuned.tried[1].ratio


def test_what_differs_from_the_first_is_not_kept_however_quick(trial, took):
    trial(lambda way: {"counts": mx.array([3.0, 4.0 + 1e-3 * (way == EIGHT)])})
    took(four=0.5, two=0.4)
    (tuned,) = tune(TINY)
    assert tuned.chosen == TWO
    assert tuned.tried[2].fault == "differs: counts"
    assert tuned.tried[2].error == pytest.approx(2e-4, rel=1e-2)
    assert tuned.tried[2].timing is None


def raising(*ways):
    """Results that are right, and errors in the variants `ways`."""

    def compute(way):
        if way in ways:
            raise RuntimeError(f"the compiler rejects {way}")
        return right(way)

    return compute


def test_a_variant_that_does_not_run_is_logged_and_not_kept(trial, took, caplog):
    trial(raising(TWO))
    took(four=0.5, eight=0.4)
    (tuned,) = tune(TINY)
    assert tuned.chosen == EIGHT
    assert tuned.tried[1].fault == "RuntimeError: the compiler rejects two"
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert record.getMessage() == (
        "variant two of march_count fails: RuntimeError: the compiler rejects two"
    )


def test_the_first_variant_that_runs_is_the_reference_and_the_default(trial, took):
    trial(raising(FOUR))
    took(two=0.5, eight=0.499)
    (tuned,) = tune(TINY)
    assert tuned.chosen == chosen_variant() == TWO
    _, two, eight = tuned.tried
    assert (two.error, two.ratio) == (0.0, 1.0)
    assert eight.ratio == pytest.approx(0.998)


def test_where_no_variant_runs_the_device_default_is_kept(trial, took, caplog):
    trial(raising(FOUR, TWO, EIGHT))
    took()
    (tuned,) = tune(TINY)
    assert tuned.chosen == FOUR
    assert all(each.fault and each.error is each.timing is None for each in tuned.tried)
    assert len(caplog.records) == 3


@pytest.mark.parametrize("runs", [1, 2, 4, 9])  # the comparison, the warm-up, and while it is timed
@pytest.mark.parametrize(("failing", "chosen"), [(FOUR, TWO), (TWO, FOUR)])
def test_an_error_while_a_variant_is_timed_ends_its_timing_alone(
    trial, monkeypatch, caplog, failing, chosen, runs
):
    monkeypatch.setattr(choosing, "RATIO_LIMIT", 0.0)  # no variant is faster than the reference
    monkeypatch.setattr("nerfmac.app.measure.timing.QUEUE", 1)
    calls = []

    def compute(way):
        calls.append(way)
        if way == failing and calls.count(way) > runs:
            raise RuntimeError("[METAL] Command buffer execution failed: Caused GPU Timeout Error")
        return right(way)

    trial(compute)
    (tuned,) = tune(TINY, seconds=0.0)
    results = {tried.name: tried for tried in tuned.tried}
    assert "GPU Timeout" in results[failing].fault
    assert results[failing].timing is results[failing].ratio is None
    assert tuned.chosen == chosen
    assert results[chosen].ratio == 1.0
    assert results[EIGHT].timing is not None
    assert [record.getMessage() for record in caplog.records] == [
        f"variant {failing} of march_count fails: {results[failing].fault}"
    ]


def test_a_choice_holds_for_the_sizes_that_were_timed(trial, took):
    trial(right)
    took(four=0.5, two=0.4, eight=0.2)
    tune(TINY)
    assert is_tuned(TINY)
    assert is_tuned(override(TINY, grid={"finest": 4096}))  # determined by the scene
    for sizes in (
        {"grid": {"levels": 16, "features": 1}},
        {"grid": {"log2_entries": 15}},
        {"networks": {"width": 64}},
        {"networks": {"color_layers": 2}},
        {"march": {"max_samples": 2**14}},
        {"occupancy": {"resolution": 64}},
    ):
        other = override(TINY, **sizes)
        assert not is_tuned(other), sizes
        with tuned_for(other):
            assert variant("march_count") == FOUR


def test_the_trials_are_like_training_and_their_variants_agree_on_this_cpu():
    found = {trial.variants: trial.case for trial in trials(TINY, 1.0)}
    assert set(found) == set(VARIANTS)
    counts = found["march_count"].run()["counts"]
    assert counts.shape == (TINY.march.max_samples // 8,)
    assert 3 < counts.mean().item() < 40
    some = (found["hash_encode_gradient"].run()["d table"] != 0).mean().item()
    assert 0.05 < some < 0.9
    for name, case in found.items():
        want = case.run()
        for way in VARIANTS[name].all:
            got = choosing.in_variant(case, name, way).run()
            assert all(each.passed for each in choosing.agreement(case, got, want)), (name, way)


def test_no_trial_has_mlx_compile_a_kernel_of_its_own_on_cuda(monkeypatch):
    graphs, evaluate = io.StringIO(), mx.eval

    def noted(*arrays):
        mx.export_to_dot(graphs, *tree_flatten(arrays, destination={}).values())
        evaluate(*arrays)

    monkeypatch.setattr(mx, "eval", noted)
    for trial in trials(TINY, 1.0):
        mx.eval(trial.case.run())
    primitives = set(re.findall(r'label ?="(\w+)"', graphs.getvalue()))
    assert {"RandomBits", "Split"} <= primitives
    assert not primitives & {"Gather", "GatherAxis", "Scatter", "ScatterAxis", "Compiled"}


def test_nothing_is_tuned_where_no_kernels_run(monkeypatch):
    monkeypatch.setenv("NERFMAC_DISABLE_KERNELS", "1")
    with pytest.raises(InputError, match="NERFMAC_DISABLE_KERNELS=1"):
        tune(TINY)
