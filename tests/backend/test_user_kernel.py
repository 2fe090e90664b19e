"""The text of a kernel, ours or a user's own, and the errors of a wrong one."""

import re

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.backend import Kernel, choose_device, sources
from nerfmac.common import InputError, constants

SCALE = """
template <int POWER, typename In, typename Out>
METAL_FUNC void scale(uint3 thread_index, int count, In x, Out y) {
  const uint i = thread_index.x;
  if (i >= uint(count)) return;
  y[i] = FACTOR * x[i];
}
"""
TWICE, THRICE = (SCALE.replace("FACTOR", factor) for factor in ("2.0f", "3.0f"))
X = mx.arange(9, dtype=mx.float32)


def kernel(source, function="scale", **changes):
    axis = (mx.float32, "count")
    return Kernel("scale", function, {"x": axis}, {"y": axis}, source=source, **changes)


def launch(made, *arrays):
    (y,) = made(*(arrays or (X,)), grid=(9, 1, 1), template=[("POWER", 1)])
    return np.array(y).tolist()


def test_a_text_and_a_file_are_launched_alike(tmp_path):
    path = tmp_path / "mine.metal"
    path.write_text(TWICE)
    assert launch(kernel(TWICE)) == launch(kernel(path)) == [2.0 * i for i in range(9)]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ((X, X), "scale got 2 arrays; expected x"),
        ((mx.zeros((9, 1)),), r"x has shape \(9, 1\)"),
        ((X.astype(mx.int32),), "x is int32; expected float32"),
    ],
)
def test_a_launch_with_wrong_inputs_is_refused(arrays, message):
    with pytest.raises(InputError, match=message):
        launch(kernel(TWICE), *arrays)


@pytest.mark.parametrize(
    "device",
    [pytest.param("cuda", marks=pytest.mark.cuda), pytest.param("metal", marks=pytest.mark.metal)],
)
def test_a_gpu_runs_it_too(device):
    choose_device(device)
    assert [launch(kernel(each))[1] for each in (TWICE, THRICE)] == [2.0, 3.0]


@pytest.mark.parametrize(
    "array",
    [
        X[::-1],
        mx.arange(18.0)[1::2],
        mx.broadcast_to(mx.array(4.0), (9,)),
        mx.arange(27.0).reshape(9, 3)[:, 1],
    ],
)
def test_elements_may_be_in_any_order_in_memory(array):
    assert launch(kernel(TWICE), array) == (2.0 * np.array(array)).tolist()


def test_an_array_with_several_axes_is_copied_in_row_major_order():
    text = SCALE.replace("FACTOR", "3.0f").replace("uint(count)", "24")
    axes = dict.fromkeys("xy", (mx.float32, "a", "b", "c"))
    made = Kernel("scale", "scale", {"x": axes["x"]}, {"y": axes["y"]}, source=text)
    array = mx.arange(48.0).reshape(4, 6, 2)[:, ::2].transpose(1, 2, 0)
    (y,) = made(array, grid=(24, 1, 1), template=[("POWER", 1)])
    np.testing.assert_array_equal(np.array(y), 3.0 * np.array(array))


def test_an_include_finds_a_header_beside_the_file_before_ours(tmp_path):
    (tmp_path / "mine.h").write_text(
        '#include "network.h"\nconstant constexpr float factor = 5.0f;'
    )
    (tmp_path / "network.h").write_text("constant constexpr float mine = 2.0f;")
    path = tmp_path / "mine.metal"
    includes = '#include "mine.h"  // a factor\n#include "occupancy.h"\n'
    path.write_text(
        includes
        + SCALE.replace("FACTOR", "mine * factor * bounds_farthest(float3{4.0f, 1.0f, 1.0f})")
    )
    assert launch(kernel(path))[1] == 40.0


def test_an_absent_function_or_header_is_named_with_its_file(tmp_path):
    path = tmp_path / "mine.metal"
    path.write_text(TWICE)
    with pytest.raises(InputError, match=r"mine\.metal.*scales"):
        launch(kernel(path, "scales"))
    path.write_text('#include "none.h"\n' + TWICE)
    with pytest.raises(InputError, match=rf"mine\.metal.*none\.h.*{tmp_path}"):
        launch(kernel(path))


@pytest.mark.parametrize("where", ["mine.metal", "mine.h"])
def test_what_the_compiler_refuses_is_told_with_the_users_own_line(tmp_path, where):
    texts = {"mine.h": "// one\n// two\n", "mine.metal": '#include "mine.h"\n' + TWICE}
    texts[where] += "int wrong() { return nowhere; }\n"
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    line = texts[where].count("\n")
    wanted = rf"mine\.metal(.|\n)*{re.escape(where)}:{line}:(.|\n)*nowhere"
    with pytest.raises(InputError, match=wanted):
        launch(kernel(tmp_path / "mine.metal"))


DIALECTS = ("metal", "cuda", "cpu")


FILES = [p for p in sources.kernels_folder().rglob("*") if p.suffix in {".metal", ".h", ".wgsl"}]

# A number that only a shared constant has, and definitions of numbers for a whole file.
DISTINCT = (
    r"\b(?:1e-0?4|0\.0001|1e-0?9|1e\+?0?9|15\.0|16777216(?:\.0)?|2654435761|805459861)[fu]?\b"
    r"|>> 5\b|& 31\b|\b32 \* (?:brick|word|low)\b"
)
DEFINED = r"^(?:#define|const|(?:constant )?constexpr) .*\b{name}\b"


def typed_constants(text: str) -> list[str]:
    """Numbers and definitions in a kernel that belong to `nerfmac.common.constants`."""
    code = re.sub(r"//.*", "", text)
    names = "|".join([*constants.shared_constants(), *constants.OF_DEVICES])
    return re.findall(DISTINCT, code) + re.findall(
        DEFINED.format(name=f"(?:{names})") + r"\s*=?\s*[\d.]+", code, re.MULTILINE
    )


def test_no_kernel_types_a_number_that_python_declares():
    assert len(FILES) > 30
    assert {
        str(path): found for path in FILES if (found := typed_constants(path.read_text()))
    } == {}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_constant_has_its_value_in_front_of_each_kernel(dialect):
    declared = constants.shared_constants()
    declared |= {name: values[dialect] for name, values in constants.OF_DEVICES.items()}
    text = sources.kernel_source("trace", dialect)
    for name, value in declared.items():
        (typed,) = re.findall(rf"constexpr [a-z ]+ {name} = ([^;]+);", text)
        assert float(typed.rstrip("fu")) == value
        assert isinstance(value, int) == ("f" not in typed)
