"""Which device is chosen: the named one, or the GPU unless the user has taken the CPU himself."""

import mlx.core as mx
import pytest

import nerfmac
from nerfmac import InputError
from nerfmac.backend import choose_device, current_device, device


class Mlx:
    """The part of MLX that keeps a default device, on a machine with the GPU `gpu` or none."""

    def __init__(self, gpu):
        self.gpu = gpu
        self.default = mx.gpu if gpu else mx.cpu

    def set_default_device(self, kind):
        self.default = kind

    def default_device(self):
        return type("Device", (), {"type": self.default})


@pytest.fixture
def machine(monkeypatch):
    def make(gpu):
        mlx = Mlx(gpu)
        for name in ("set_default_device", "default_device"):
            monkeypatch.setattr(mx, name, getattr(mlx, name))
        monkeypatch.setattr(device, "gpu", lambda: gpu)
        monkeypatch.setattr(device, "_took_cpu", False)
        monkeypatch.setenv("MLX_PTX_CACHE_DIR", "anywhere")
        return mlx

    return make


@pytest.mark.parametrize("gpu", ["metal", "cuda", None])
def test_auto_is_the_gpu_where_there_is_one(machine, gpu):
    mlx = machine(gpu)
    for _ in range(2):
        assert choose_device() == current_device() == (gpu or "cpu")
        assert mlx.default == (mx.gpu if gpu else mx.cpu)


@pytest.mark.parametrize("named", [(), ("cpu",)])
def test_auto_leaves_the_cpu_that_the_user_made_the_default(machine, named):
    mlx = machine("metal")
    mlx.set_default_device(mx.cpu)
    for name in (*named, "auto", "auto"):
        assert choose_device(name) == current_device() == "cpu"


def test_auto_is_the_gpu_again_after_nerfmac_was_asked_for_the_cpu(machine):
    machine("metal")
    assert [choose_device(each) for each in ("cpu", "auto", "cpu", "metal", "auto")] == [
        "cpu",
        "metal",
        "cpu",
        "metal",
        "metal",
    ]


def test_a_named_device_is_taken_whatever_the_user_made_the_default(machine):
    mlx = machine("cuda")
    mlx.set_default_device(mx.cpu)
    assert choose_device("cuda") == "cuda"
    assert mlx.default == mx.gpu


def test_the_one_of_several_gpus_that_the_user_made_the_default_stays(machine, monkeypatch):
    machine("cuda")
    monkeypatch.setattr(mx, "set_default_device", lambda kind: pytest.fail("replaced"))
    choose_device("auto")
    choose_device("cuda")


@pytest.fixture
def on_windows(monkeypatch):
    monkeypatch.setattr(device.platform, "system", lambda: "Windows")


REFUSED = "Windows"


@pytest.mark.usefixtures("on_windows")
def test_windows_is_refused_at_first_use(tmp_path):
    for use in (
        choose_device,
        current_device,
        lambda: nerfmac.train(tmp_path, out=tmp_path / "out"),
    ):
        with pytest.raises(InputError, match=REFUSED):
            use()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("architecture", "generation"),
    [("applegpu_g13g", 13), ("applegpu_g14s", 14), ("applegpu_g16p", 16), ("apple", None)],
)
def test_the_generation_of_an_apple_gpu_is_in_its_architecture(
    machine, monkeypatch, architecture, generation
):
    machine("metal")
    monkeypatch.setattr(mx, "device_info", lambda: {"architecture": architecture})
    assert device.apple_generation() == generation
    mx.set_default_device(mx.cpu)
    assert device.apple_generation() is None
