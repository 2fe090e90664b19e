"""Messages about training memory: before training starts, and if memory runs out."""

import subprocess
import sys

import mlx.core as mx
import pytest

from nerfmac.app.run import Run
from nerfmac.app.run.configuration import check_memory, needed_memory
from nerfmac.app.scenes import load_scene
from nerfmac.backend import watchdog
from nerfmac.backend.memory import limit_memory, memory_bytes
from nerfmac.common.checks import InputError
from nerfmac.config import override
from nerfmac.fields.field import ParameterSpec
from nerfmac.fields.vanilla import VanillaField
from nerfmac.geometry.bounds import Bounds
from nerfmac.training.method import Method
from nerfmac.training.trainer import Trainer
from tests.backend.test_watchdog import THREADS
from tests.scene_factory import CONFIG, FLAGS, nerfmac, write_scene


@pytest.fixture(autouse=True)
def unlimited_afterwards():
    before = mx.set_memory_limit(2**34)
    mx.set_memory_limit(before)
    cache = mx.set_cache_limit(2**34)
    mx.set_cache_limit(cache)
    yield
    mx.set_memory_limit(before)
    mx.set_cache_limit(cache)


@pytest.fixture
def scene(tmp_path):
    return write_scene(tmp_path / "balls", train=3)


@pytest.mark.usefixtures("on_the_cpu")
@pytest.mark.parametrize(
    ("changes", "part"),
    [({"grid": {"log2_entries": 16}}, "the model"), ({"march": {"max_samples": 2**16}}, "a step")],
)
def test_more_of_a_part_needs_more_memory_for_it_alone(scene, changes, part):
    loaded = load_scene(scene)
    small, large = (
        needed_memory(each, loaded, Method()) for each in (CONFIG, override(CONFIG, **changes))
    )
    assert large[part] > 4 * small[part]
    assert {name: size for name, size in small.items() if name != part} == {
        name: size for name, size in large.items() if name != part
    }
    assert small["the images"] == loaded.views("train").pixels.nbytes


def test_a_field_of_ones_own_counts(scene):
    class Large(VanillaField):
        parameter_specs = {"table": ParameterSpec((2**20, 3))}  # noqa: RUF012

    loaded = load_scene(scene)
    own = Method(field=Large(CONFIG.vanilla, Bounds(1.0)))
    configured, large = (needed_memory(CONFIG, loaded, each) for each in (Method(), own))
    assert large["the model"] > 6 * 4 * 3 * 2**20 > configured["the model"]
    with pytest.raises(InputError, match="the model 72"):
        check_memory(CONFIG, loaded, own, 2**24)


@pytest.mark.usefixtures("on_the_cpu")
def test_a_model_takes_at_least_what_it_is_said_to(scene):
    loaded = load_scene(scene)
    config = override(CONFIG, grid={"log2_entries": 17})
    state = Trainer(config, loaded.bounds, loaded.views("train")).init()
    held = {id(each): each.nbytes for each in state.arrays().values()}
    moved = sum(each.nbytes for each in state.parameters.values())
    said = needed_memory(config, loaded, Method())["the model"]
    # Its arrays twice, before and after a step, less the average, and a gradient.
    assert said == pytest.approx(sum(held.values()) + 4 * moved, rel=0.1)


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (("--grid.log2-entries", 20), "--grid.log2-entries"),
        (("--march.max-samples", 2**19), "--march.max-samples"),
    ],
)
def test_a_limit_below_need_is_refused_and_names_what_to_lower(
    scene, tmp_path, capsys, flags, named
):
    out = tmp_path / "run"
    given = ("train", scene, *FLAGS, *flags, "--steps", 2, "--out", out, "--memory-limit", 0.02)
    assert nerfmac(*given) == 2
    (told,) = capsys.readouterr().err.splitlines()
    assert "training requires at least" in told
    assert "but only 20.5 MiB are available" in told
    assert f"reduce {named}" in told
    assert not out.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux holds a process to ulimit -v")
def test_what_ulimit_does_not_leave_is_refused_before_it_ends_the_process(scene, tmp_path):
    # MLX's first array beyond it would be a segmentation fault.
    out = tmp_path / "run"
    flags = ("--march.max-samples", 2**22, "--train.max-rays", 2**20, "--steps", 2, "--out", out)
    given = [sys.executable, "-m", "nerfmac", *map(str, ("train", scene, *FLAGS, *flags))]
    command = ["bash", "-c", 'ulimit -v 2500000 && exec "$@"', "bash", *given]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    (told,) = done.stderr.splitlines()
    assert "training requires at least" in told
    assert "reduce --march.max-samples" in told
    assert not out.exists()


@pytest.mark.usefixtures("on_the_cpu")
def test_a_fraction_limits_mlx_and_what_it_keeps():
    limit = limit_memory(fraction=0.5)
    assert limit == memory_bytes() // 2
    assert mx.set_memory_limit(limit) == limit
    assert mx.set_cache_limit(0) == limit // 4


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            "[malloc] Unable to allocate 34359738368 bytes.",
            "no memory is left: [malloc] Unable to allocate 34359738368 bytes.; step 4 is saved in "
            "{out}; reduce --",
        ),
        (
            "[METAL] Command buffer execution failed: Impacting Interactivity "
            "(0000000e:kIOGPUCommandBufferCallbackErrorImpactingInteractivity).",
            "; try again with `--preset small`, over ssh, or with the "
            "environment variable AGX_RELAX_CDM_CTXSTORE_TIMEOUT=1; "
            "step 4 is saved in {out}; run `nerfmac train --out {out} --resume --steps 9` to "
            "continue",
        ),
    ],
)
def test_where_the_gpu_gives_up_the_last_state_is_saved_and_told(
    scene, tmp_path, capsys, monkeypatch, error, told
):
    train, out = Trainer.train, tmp_path / "run"

    def exhausted(self, state, goal):
        for report in train(self, state, goal):
            if report.state.step > 8:  # The report before the last one is confirmed.
                raise RuntimeError(error)
            yield report

    monkeypatch.setattr(watchdog, "_is_relaxed", False)
    monkeypatch.setattr(watchdog, "PAUSE", 0.0)
    monkeypatch.setattr(Trainer, "train", exhausted)
    assert nerfmac("train", scene, *FLAGS, "--steps", 9, "--out", out, "--no-video") == 2
    assert told.format(out=out) in capsys.readouterr().err.splitlines()[-1]
    assert Run.load(out).state.step == 4


def test_other_verbs_say_so_in_a_line_and_other_errors_are_none_of_it(monkeypatch, capsys):
    def fails(error, kind=RuntimeError):
        def main(_argv):
            raise kind(error)

        monkeypatch.setattr("nerfmac.app.cli.info.info", main)

    fails(THREADS, ValueError)
    assert nerfmac("info") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert THREADS in line
    fails("could not convert string to float", ValueError)
    with pytest.raises(ValueError, match="convert"):
        nerfmac("info")
    fails("cudaMallocAsync(&data, size, stream) failed: out of memory.")
    assert nerfmac("info") == 2
    assert "nerfmac: no memory is left: cudaMallocAsync" in capsys.readouterr().err
    fails("[broadcast_shapes] Shapes (2) and (3) cannot be broadcast.")
    with pytest.raises(RuntimeError, match="broadcast"):
        nerfmac("info")
