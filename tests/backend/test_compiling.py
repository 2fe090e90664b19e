"""The compile mode of MLX, and kernels that are compiled ahead of their launch."""

from concurrent.futures import ThreadPoolExecutor

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.backend import (
    build,
    compiled_ahead,
    cpu_kernel,
    kernels_disabled,
    runs_kernel,
)
from nerfmac.backend.cpu_kernel import CpuKernel
from nerfmac.backend.kernel import launched_by
from nerfmac.ops.occupancy_update import pack_bits, splat
from nerfmac.ops.spherical_harmonics import spherical_harmonics

pytestmark = pytest.mark.usefixtures("on_the_cpu")


def graphs():
    """Two kernels, one of them a gradient's, and a third inside a compiled function."""
    gradient = mx.grad(lambda x: spherical_harmonics(x).sum())(mx.ones((3, 3)))
    bits = mx.compile(lambda x: pack_bits(x, mx.array([0.5])))(mx.ones(32))
    return [gradient, bits]


@pytest.fixture
def compiled(tmp_path, monkeypatch):
    """Names of the kernels in an empty cache, of this test's own."""
    assert runs_kernel("march")  # which has needed a kernel itself
    monkeypatch.setenv("NERFMAC_CACHE", str(tmp_path / "cache"))
    cpu_kernel._function.cache_clear()
    yield lambda: {path.name.rpartition("-")[0] for path in tmp_path.glob("cache/*")}
    cpu_kernel._function.cache_clear()


NAMES = {
    "nerfmac_spherical_harmonics_forward",
    "nerfmac_spherical_harmonics_gradient",
    "nerfmac_occupancy_pack",
}


def test_what_was_compiled_ahead_is_all_that_is_launched(compiled, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(CpuKernel, "__call__", lambda *_, **__: pytest.fail("launched"))
        with compiled_ahead():
            graphs()
    assert compiled() == NAMES
    monkeypatch.setattr(build.Library, "compile", lambda *_: pytest.fail("compiled again"))
    gradient, bits = graphs()
    with kernels_disabled():
        want = graphs()
    np.testing.assert_allclose(np.array(gradient), np.array(want[0]), rtol=1e-5, atol=1e-6)
    assert bits.tolist() == want[1].tolist() == [2**32 - 1]


def peaks():
    return splat(mx.array([1, 1]), mx.array([2.0, 3.0]), 3).tolist()


def test_launched_by_on_one_thread_leaves_another_threads_launches_alone():
    def zeros(_build, **call):
        return list(map(mx.zeros, call["output_shapes"], call["output_dtypes"]))

    with ThreadPoolExecutor(1) as another, launched_by(zeros):
        assert peaks() == [0.0, 0.0, 0.0]
        assert another.submit(peaks).result() == [0.0, 3.0, 0.0]
