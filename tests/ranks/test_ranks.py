"""Two ranks on one machine, by the ring, do what one would with twice the rays."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from local_ranks import start_local

from nerfmac import Goal, Run, load_scene, resume
from nerfmac.ranks import ALONE, LostRankError, Ranks, join
from tests.numerics import assert_matches
from tests.ranks.shared import CONFIG, STEPS, double, told
from tests.scene_factory import initial, trainer_of

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 300.0  # seconds, on a busy machine


@pytest.fixture(scope="module")
def both(balls, tmp_path_factory):
    """Return the results of the first and the second rank as dictionaries."""
    folder = tmp_path_factory.mktemp("ranks")
    command = [sys.executable, "-m", "tests.ranks.at_work", str(balls), str(folder)]
    caught = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    started = start_local(command, 2, folder, cwd=ROOT, **caught)
    try:
        outputs = [each.communicate(timeout=PATIENCE)[0] for each in started]
    finally:
        for each in started:
            each.kill()
    assert [each.returncode for each in started] == [0, 0], "\n".join(outputs)
    return [dict(np.load(folder / f"{rank}.npz")) for rank in range(2)]


def of(label, found):
    """The arrays that belong to one training, without its label."""
    arrays = {
        name.removeprefix(f"{label}."): each
        for name, each in found.items()
        if name.startswith(f"{label}.")
    }
    assert arrays
    return arrays


def assert_same_bits(one, other):
    assert one.keys() == other.keys()
    for name, values in one.items():
        assert values.tobytes() == other[name].tobytes(), f"{name} differs"


def test_without_other_ranks_there_is_one_and_it_keeps_its_own(monkeypatch):
    monkeypatch.delenv("MLX_RANK", raising=False)
    assert join() is ALONE
    assert ALONE.is_first
    arrays = {"any": np.arange(3.0)}
    assert ALONE.weighted_mean(arrays, 0.5) == arrays
    assert ALONE.number_of_first(2.5) == 2.5


def test_a_mean_counts_each_rank_by_its_weight(both):
    sent = [told(rank) for rank in range(2)]
    total = sum(weight for _, weight in sent)
    means = [of("mean", found) for found in both]
    assert_same_bits(*means)
    for name in ("large", "small"):
        want = sum(arrays[name] * (weight / total) for arrays, weight in sent)
        # Each of two terms and their sum are rounded; bfloat16 has 8 bits, and float32 24.
        rel = 3 * 2.0**-9 if name == "large" else 4 * 2.0**-24
        assert_matches(means[0][name], want, rel=rel, name=name)


def test_what_the_first_has_all_have_bit_for_bit(both):
    want, _ = told(0)
    for found in both:
        assert_same_bits(of("first", found), want)
        assert found["number"] == 86400.125


def test_ranks_that_differ_are_told_so(both):
    assert [found["differences"].tolist() for found in both] == [[True, False, True]] * 2


def test_all_ranks_have_the_same_state_after_training(both):
    assert_same_bits(*(of("now", found) for found in both))


def trained_alone(scene, config, steps):
    trainer = trainer_of(double(config), scene.bounds, scene.views("train"))
    *_, last = trainer.train(initial(trainer), Goal(steps=steps))
    return {name: np.array(values) for name, values in last.state.arrays().items()}


# After one step, only the rounding of two sums of 64 rays differs from one sum of 128. After 50
# steps the packing of the moments has amplified the difference: it rounds to 1 in 2047, up or down
# depending on the last bits of gradients. The effect is largest in the table, because each entry
# gets gradients from a few rays only.
@pytest.mark.usefixtures("on_the_cpu")
@pytest.mark.parametrize(
    ("label", "steps", "rel"),
    [
        ("one", 1, {"table": 64 * 2.0**-24, "density": 64 * 2.0**-24, "color": 64 * 2.0**-24}),
        ("now", STEPS, {"table": 0.1, "density": 2e-6, "color": 3e-4}),
    ],
)
def test_two_ranks_are_one_with_twice_the_rays(both, scene, label, steps, rel):
    got, want = of(label, both[0]), trained_alone(scene, CONFIG, steps)
    assert got["samples_per_ray"] == pytest.approx(want["samples_per_ray"], rel=1e-5)
    for name, allowed in rel.items():
        values = got[f"parameters.{name}"], want[f"parameters.{name}"]
        assert_matches(*values, rel=allowed, name=name)


def test_all_ranks_stop_when_the_first_has_had_its_seconds(both):
    steps = [int(found["steps_of_seconds"]) for found in both]
    assert steps[0] == steps[1] > 10


def test_a_rank_lost_before_the_first_step_is_named_as_one(balls, monkeypatch):
    def lost(*told):
        raise RuntimeError("[ring] connection to a peer was lost")

    run = Run.begin(load_scene(balls), CONFIG)
    monkeypatch.setattr(Ranks, "check_alike", lost)
    with pytest.raises(
        LostRankError, match=r"another rank has failed, as detected by .*: \[ring\] connection"
    ):
        resume(run, Goal(steps=1), progress=False)
