"""NERFMAC_DISABLE_KERNELS: any operation may run as its reference, together with other kernels."""

import mlx.core as mx
import numpy as np
import pytest

from nerfmac import Camera, Goal, Lens, choose_device, load_scene
from nerfmac.backend import backend, current_device, runs_kernel, why_reference, working_dtype
from nerfmac.backend.metal_text import on_metal
from nerfmac.backend.sources import operations
from tests.scene_factory import CONFIG, initial, trainer_of, write_scene

OPERATIONS = list(operations())
VARIABLE = "NERFMAC_DISABLE_KERNELS"


@pytest.fixture(autouse=True)
def nothing_disabled(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)


def test_operations_are_disabled_by_name(monkeypatch):
    assert all(map(runs_kernel, OPERATIONS))
    assert backend() == "cpu"
    monkeypatch.setenv(VARIABLE, "hash_encode, composite")
    off = [operation for operation in OPERATIONS if not runs_kernel(operation)]
    assert off == ["composite", "hash_encode"]
    assert backend("composite") == "reference"
    assert backend() == "cpu"
    monkeypatch.setenv(VARIABLE, "1")
    assert not any(map(runs_kernel, OPERATIONS))
    assert why_reference("march") == "NERFMAC_DISABLE_KERNELS=1"
    assert backend() == "reference"


@pytest.fixture(scope="module")
def trainer(tmp_path_factory):
    scene = load_scene(write_scene(tmp_path_factory.mktemp("scenes") / "balls"))
    return lambda: trainer_of(CONFIG, scene.bounds, scene.views("train"))


def all_that_a_user_runs(trainer):
    """Both occupancy updates, a step, the average of the parameters, and an image."""
    state = initial(trainer)
    for results in trainer.trial(state):
        mx.eval(results)
    camera = Camera.look_at((2, 1, 3), (0, 0, 0), (0, 0, 1), Lens.from_fov(1.0, 8, 4))
    rendered = trainer.model.renderer(state).render(camera)
    return state, rendered


def ones(launch, _inputs):
    """A possible result of a launch: samples for all rays, with nonzero density."""
    return list(map(mx.ones, launch.output_shapes, launch.output_dtypes))


SUBSETS = {
    **{f"without {one}": one for one in OPERATIONS},
    **{f"only {one}": ",".join(each for each in OPERATIONS if each != one) for one in OPERATIONS},
}


@pytest.mark.parametrize("disabled", SUBSETS.values(), ids=SUBSETS)
def test_on_metal_any_operation_runs_as_reference_beside_the_kernels(
    trainer, monkeypatch, disabled
):
    monkeypatch.setenv(VARIABLE, disabled)
    with on_metal(ones):
        assert working_dtype() == mx.float16
        all_that_a_user_runs(trainer())


@pytest.mark.parametrize("disabled", SUBSETS.values(), ids=SUBSETS)
def test_mx_compile_takes_any_operation_as_reference_beside_the_kernels(
    trainer, monkeypatch, disabled
):
    monkeypatch.setenv(VARIABLE, disabled)
    made = trainer()
    state = initial(made)
    after, result = made.advance(state, factor=0.0)  # traced and compiled, but not computed
    assert result.measured.shape == (4,)
    assert after.step == state.step + 1


@pytest.mark.cuda
@pytest.mark.parametrize("disabled", SUBSETS.values(), ids=SUBSETS)
def test_on_cuda_any_operation_runs_as_reference_beside_the_kernels(trainer, monkeypatch, disabled):
    choose_device("cuda")
    assert current_device() == "cuda"
    losses = []
    for value in ("", disabled):
        monkeypatch.setenv(VARIABLE, value)
        made = trainer()
        state, rendered = all_that_a_user_runs(made)
        losses.append(next(made.train(state, Goal(steps=1))).loss)
        assert np.isfinite(rendered.color).all()
    assert losses[1] == pytest.approx(losses[0], rel=1e-2)
