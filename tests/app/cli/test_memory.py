"""Messages about training memory: before training starts, and if memory runs out."""

import subprocess
import sys
from types import SimpleNamespace

import mlx.core as mx
import pytest

from nerfmac import Bounds, Goal, InputError, Method, Model, Trainer, load_scene
from nerfmac.app.run import Run, Training, check_memory, configuration, needed_memory
from nerfmac.backend import limit_memory, pretended, watchdog
from nerfmac.config import PRESETS, override
from nerfmac.config.scenes import SceneOptions
from tests.scene_factory import CONFIG, FLAGS, nerfmac


@pytest.fixture(autouse=True)
def unlimited_afterwards():
    before = mx.set_memory_limit(2**34)
    mx.set_memory_limit(before)
    cache = mx.set_cache_limit(2**34)
    mx.set_cache_limit(cache)
    yield
    mx.set_memory_limit(before)
    mx.set_cache_limit(cache)


def needed(config, scene, method=Method()):  # noqa: B008 - a frozen value
    return needed_memory(Model(config, scene.bounds, method=method), scene)


def check(config, scene, method, limit):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(configuration, "memory_limit", lambda: limit)
        check_memory(Model(config, scene.bounds, method=method), scene)


@pytest.mark.usefixtures("on_the_cpu")
@pytest.mark.parametrize(
    ("changes", "part"),
    [({"grid": {"log2_entries": 16}}, "the model"), ({"march": {"max_samples": 2**16}}, "a step")],
)
def test_more_of_a_part_needs_more_memory_for_it_alone(scene, changes, part):
    loaded = load_scene(scene)
    small, large = (needed(each, loaded) for each in (CONFIG, override(CONFIG, **changes)))
    assert large[part] > 4 * small[part]
    assert {name: size for name, size in small.items() if name != part} == {
        name: size for name, size in large.items() if name != part
    }
    assert small["the images"] == loaded.views("train").pixels.nbytes


@pytest.mark.usefixtures("on_the_cpu")
@pytest.mark.parametrize(
    ("changes", "extent"),
    [
        ({"grid": {"log2_entries": 17}, "occupancy": {"resolution": 32}}, None),
        ({"march": {"max_samples": 2**16}, "occupancy": {"resolution": 32}}, None),
        ({"occupancy": {"resolution": 128}}, 8.0),
    ],
)
def test_training_takes_what_it_is_said_to(scene, changes, extent):
    loaded = load_scene(scene, extent=extent)
    training = Training(Run.begin(loaded, override(CONFIG, **changes), progress=False))
    run = training.run
    said = needed(run.config, loaded)
    for _ in training.prepare():
        pass
    mx.set_cache_limit(0)
    mx.reset_peak_memory()
    training.train(Goal(steps=24), progress=False)
    # Fewer arrays exist at the same time if the device is faster than the host.
    assert 0.5 * sum(said.values()) < mx.get_peak_memory() < 1.25 * sum(said.values())


RECORDED = {
    "Apple M1": ("applegpu_g13g", 8 * 2**30, 5726623061, 2**32),
    "Apple M1, 16 GB": ("applegpu_g13g", 16 * 2**30, 11453251584, 2**33),
    "Apple M4 Pro": ("applegpu_g16s", 51539607552, 40200896512, 30150672384),
    "Apple M3 Ultra": ("applegpu_g15d", 274877906944, 223338299392, 167503724544),
}
"""Values of `mx.device_info()` that users of MLX and of llama.cpp have published. The values of the
M1 with 16 GB are estimated from those of the M1 with 8 GB."""
MEGAPIXELS = 4032 * 3024


class Photos:
    """A scene of photos that are never read."""

    bounds, has_alpha, options = Bounds(8.0), False, SceneOptions()

    def __init__(self, count, pixels=MEGAPIXELS):
        lens = SimpleNamespace(width=pixels, height=1)
        frame = SimpleNamespace(camera=SimpleNamespace(lens=lens))
        self.splits = {"train": [frame] * count}


@pytest.fixture
def on_a(monkeypatch):
    def pretend(name):
        names = "architecture", "memory_size", "max_recommended_working_set_size"
        values = dict(zip((*names, "max_buffer_length"), RECORDED[name], strict=True))
        monkeypatch.setattr(mx, "device_info", lambda: values)
        monkeypatch.setattr("nerfmac.app.run.configuration.working_dtype", lambda: mx.float16)

    with pretended("metal", 13):
        yield pretend


@pytest.mark.parametrize(
    ("mac", "photos", "told"),
    [
        ("Apple M1", 100, "only 4.00 GiB are available; reduce the images with --downscale 2"),
        ("Apple M1", 60, None),
        ("Apple M1", 1000, "reduce the images with --downscale 4"),
        ("Apple M1, 16 GB", 100, None),
        ("Apple M1, 16 GB", 210, "only 8.00 GiB are available; reduce the images with --downscale"),
        ("Apple M4 Pro", 600, None),
        ("Apple M4 Pro", 850, "only 28.08 GiB are available; reduce the images with --downscale 2"),
        ("Apple M3 Ultra", 3000, None),
    ],
)
def test_photos_that_do_not_fit_on_a_mac_are_refused_with_the_scale_that_fits(
    on_a, mac, photos, told
):
    on_a(mac)
    limit = limit_memory()
    if told is None:
        check(PRESETS["base"], Photos(photos), Method(), limit)
        return
    with pytest.raises(InputError) as refused:
        check(PRESETS["base"], Photos(photos), Method(), limit)
    assert told in str(refused.value)
    scale = int(str(refused.value)[-1])
    scaled = Photos(photos, MEGAPIXELS // scale**2)
    check(PRESETS["base"], scaled, Method(), limit)


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
