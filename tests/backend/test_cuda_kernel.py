"""CUDA kernels without a GPU: the program that is compiled, once, and the launch's arguments."""

import mlx.core as mx
import pytest

from nerfmac.backend import Kernel, cuda_kernel, kernel, pretended
from nerfmac.backend.build import BuildError
from nerfmac.common import InputError

SOURCE = """
template <int POWER, typename In, typename Out>
METAL_FUNC void power(uint3 thread_index, int count, In x, Out y) {}
"""


@pytest.fixture
def power() -> Kernel:
    """A kernel that reads a shape, with a template argument."""
    kinds = mx.float32, mx.float16, mx.int32
    x, y = (kinds, "rows", "columns"), (mx.float32, "rows", "columns")
    rows = "x_shape[0] * x_shape[1]"
    return Kernel("power", "power", {"x": x}, {"y": y}, rows, source=SOURCE)


@pytest.fixture
def cuda(tmp_path, monkeypatch):
    """Within it the device is CUDA; gives the programs compiled and the calls launched."""
    programs, calls = {}, []

    def compile_cubin(name, text, capability):
        assert capability == (9, 0)
        programs[name] = text
        return f"binary of {name}".encode()

    def launch(**call):
        calls.append(call)
        return list(map(mx.zeros, call["output_shapes"], call["output_dtypes"]))

    monkeypatch.setenv("NERFMAC_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cuda_kernel, "compute_capability", lambda: (9, 0))
    monkeypatch.setattr(cuda_kernel, "compile_cubin", compile_cubin)
    monkeypatch.setattr(cuda_kernel, "compiler_version", lambda: "13.0")
    monkeypatch.setattr(cuda_kernel.mx.fast, "precompiled_cuda_kernel", launch)
    for cached in (cuda_kernel._binary, cuda_kernel._cubin, kernel._build):
        cached.cache_clear()
    with pretended("cuda"):
        yield programs, calls
    for cached in (cuda_kernel._binary, cuda_kernel._cubin, kernel._build):
        cached.cache_clear()


def run(power: Kernel, x: mx.array, exponent: int = 3) -> None:
    power(x, grid=(x.size, 1, 1), template=[("POWER", exponent)])


def test_the_program_is_the_kernel_for_its_types_and_shapes(power, cuda):
    programs, calls = cuda
    run(power, mx.zeros((5, 7), mx.float16))
    ((name, text),) = programs.items()
    head = 'extern "C" __global__ void ' + name
    assert f"{head}(const half* x, float* y, int x_shape_0, int x_shape_1)" in text
    assert "constexpr int POWER = 3;" in text
    assert "const int x_shape[] = {x_shape_0, x_shape_1};" in text
    assert "power<POWER>(thread_position_in_grid, x_shape[0] * x_shape[1], x, y);" in text
    (call,) = calls
    assert call["name"] == name
    assert call["compiled_source"] == f"binary of {name}".encode()
    assert (call["scalars"], call["grid"], call["threadgroup"]) == ([5, 7], (35, 1, 1), (35, 1, 1))
    assert call["ensure_row_contiguous"] is True


def test_each_program_is_compiled_once_and_kept(power, cuda, tmp_path):
    programs, calls = cuda
    for x in (mx.zeros((5, 7)), mx.zeros((6, 2)), mx.zeros((5, 7), mx.int32)):
        run(power, x)
    run(power, mx.zeros((5, 7)), exponent=2)
    assert len(programs) == 3  # lengths are arguments, types and template arguments are not
    assert [call["scalars"] for call in calls] == [[5, 7], [6, 2], [5, 7], [5, 7]]
    assert len({call["name"] for call in calls}) == 3
    assert len(list(tmp_path.glob("cache/*-sm90-13.0.cubin"))) == 3
    cuda_kernel._binary.cache_clear()  # as another process would begin
    programs.clear()
    run(power, mx.zeros((5, 7)))
    assert not programs


def test_a_users_kernel_that_does_not_compile_is_his_mistake(power, cuda, monkeypatch):
    def refuse(name, *_):
        raise BuildError(f"nvrtc failed on {name}:\nexpected a semicolon")

    monkeypatch.setattr(cuda_kernel, "compile_cubin", refuse)
    with pytest.raises(InputError, match=r"power.*nvrtc"):
        run(power, mx.zeros((5, 7)))
