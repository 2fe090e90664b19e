"""Which device is chosen: the named one, or the GPU unless the user has taken the CPU himself."""

import os
import subprocess
import sys

import mlx.core as mx
import pytest

import nerfmac
from nerfmac import InputError
from nerfmac.backend import choose_device, current_device, device, host_memory_bytes


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
    assert choose_device("metal") == "metal"
    assert mlx.default == mx.gpu


def test_the_one_of_several_gpus_that_the_user_made_the_default_stays(machine, monkeypatch):
    machine("cuda")
    monkeypatch.setattr(mx, "set_default_device", lambda kind: pytest.fail("replaced"))
    choose_device("auto")
    choose_device("cuda")


def test_windows_is_refused_at_first_use(tmp_path, monkeypatch):
    monkeypatch.setattr(device.platform, "system", lambda: "Windows")
    out = tmp_path / "out"
    for use in (choose_device, current_device, lambda: nerfmac.train(tmp_path, out=out)):
        with pytest.raises(InputError, match="Windows"):
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


MACHINE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def system(root, group, limits):
    """A made-up system in `root`: the process's control group, and limits by files."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(group)
    for name, limit in limits.items():
        path = root / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{limit}\n")
    return host_memory_bytes(root)


@pytest.mark.parametrize(
    ("group", "limits", "want"),
    [
        ("0::/\n", {"memory.max": 12345678}, 12345678),
        ("0::/\n", {"memory.max": "max"}, MACHINE),
        ("0::/a/b\n", {"a/b/memory.max": "max", "a/memory.max": 23456789}, 23456789),
        ("0::/a/b\n", {"a/b/memory.max": 34567890, "a/memory.max": 45678901}, 34567890),
        ("5:cpu:/c\n4:memory:/c\n", {"memory/c/memory.limit_in_bytes": 67890123}, 67890123),
        ("4:cpu,memory:/c\n", {"memory/memory.limit_in_bytes": 78901234}, 78901234),
        ("4:memory:/\n", {"memory/memory.limit_in_bytes": 2**63 - 4096}, MACHINE),
        ("", {}, MACHINE),
    ],
)
def test_a_container_has_the_memory_that_it_was_given(tmp_path, group, limits, want):
    assert host_memory_bytes(tmp_path) == MACHINE, "there are no control groups"
    assert system(tmp_path, group, limits) == want


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux holds a process to ulimit -v")
def test_what_ulimit_leaves_is_all_there_is():
    code = "from nerfmac.backend.memory import host_memory_bytes; print(host_memory_bytes())"
    kilobytes = 6_000_000
    words = ["bash", "-c", f'ulimit -v {kilobytes} && exec "$0" -c "$1"', sys.executable, code]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    # The address space that Python and the libraries have mapped is subtracted, and is not zero.
    assert 0.1 * kilobytes * 1024 < int(done.stdout) < min(MACHINE, kilobytes * 1024 - 2**20)
