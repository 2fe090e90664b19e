"""The text of a kernel, ours or a user's own, and the errors of a wrong one."""

import re
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.backend import Kernel, choose_device, sources
from nerfmac.backend.metal_text import recorded
from nerfmac.common import constants
from nerfmac.common.checks import InputError

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


def test_kernels_of_one_function_name_stay_apart():
    both = kernel(TWICE), kernel(THRICE)
    assert [launch(each)[1] for each in (*both, *both)] == [2.0, 3.0, 2.0, 3.0]
    launched = []
    for each in (*both, kernel(TWICE), kernel(TWICE, rows="x_shape[0] - 1")):
        with recorded() as launches:
            launch(each)
        launched += launches
    first, second, again, shorter = launched
    assert first == again
    assert len({first, second, shorter}) == 3


def test_a_changed_file_is_read_by_a_kernel_made_after_the_change(tmp_path):
    path = tmp_path / "mine.metal"
    path.write_text(TWICE)
    before = kernel(path)
    assert launch(before)[1] == 2.0
    path.write_text(THRICE)
    assert launch(kernel(path))[1] == 3.0
    assert launch(before)[1] == 2.0


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


def test_what_is_not_ascii_is_refused_when_the_kernel_is_made(tmp_path):
    path = tmp_path / "mine.metal"
    path.write_text("// Müller\n" + TWICE)
    with pytest.raises(InputError, match=r"mine\.metal.*ASCII"):
        kernel(path)
    with pytest.raises(InputError, match=r"scale.*ASCII"):
        kernel("// Müller\n" + TWICE)


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


OPERATIONS = sorted(path.stem for path in sources.kernels_folder().glob("*.metal"))
DIALECTS = ("metal", "cuda", "cpu")


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_text_of_a_kernel_needs_no_other_file_of_ours(operation, dialect):
    text = sources.kernel_source(operation, dialect)
    assert '#include "' not in text
    assert text.startswith(sources.dialect_source(dialect))
    for header in sources.kernels_folder().rglob("*.h"):
        own = sources._INCLUDE.sub("", header.read_text()).strip()
        is_anothers = header.parent.name in set(DIALECTS) - {dialect}
        assert text.count(own) <= (0 if is_anothers else 1)


def text_of(files: dict[str, str], dialect: str, folder: Path, monkeypatch) -> list[str]:
    """The words of the kernel `toy` in a folder of these files."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    monkeypatch.setattr(sources, "kernels_folder", lambda: folder)
    text = sources.kernel_source.__wrapped__("toy", dialect)
    return text.removeprefix(constants.declarations(dialect)).split()


def test_a_header_is_pasted_once_however_often_it_is_included(tmp_path, monkeypatch):
    files = {
        "dialects/cpu/prelude.h": "// dialect",
        "one.h": '#include "two.h"\nint one;',
        "two.h": "int two;",
        "toy.metal": '#include "two.h"\n#include "one.h"\n#include "two.h"\nint toy;',
    }
    words = text_of(files, "cpu", tmp_path, monkeypatch)
    assert words == ["//", "dialect", "int", "two;", "int", "one;", "int", "toy;"]


@pytest.mark.parametrize(("dialect", "tile"), [("cpu", ["two;", "own;"]), ("metal", ["shared;"])])
def test_a_header_is_the_dialects_own_where_it_has_one(tmp_path, monkeypatch, dialect, tile):
    files = {
        "dialects/cpu/prelude.h": "cpu;",
        "dialects/metal/prelude.h": "metal;",
        "dialects/cpu/tile.h": '#include "two.h"\nown;',
        "dialects/cuda/tile.h": "another;",
        "tile.h": "shared;",
        "one.h": '#include "tile.h"\none;',
        "two.h": "two;",
        "toy.metal": '#include "one.h"\n#include "tile.h"\ntoy;',
    }
    words = text_of(files, dialect, tmp_path, monkeypatch)
    assert words == [f"{dialect};", *tile, "one;", "toy;"]


SHADERS = sorted((sources.kernels_folder() / "wgsl").glob("*.wgsl"))
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


@pytest.mark.parametrize(
    "line",
    [
        "const bool ends = light < 1e-4f;",
        "x = y * 2654435761u;",
        "constant constexpr int THINNING_UNITS = 32;",
        "#define TILE_SIMDGROUPS 4",
        "const BRICK_WIDTH = 4;",
        "word = bits[cell.index >> 5];",
    ],
)
def test_a_number_that_is_typed_again_is_found(line):
    assert typed_constants(f"// 1e-4\n{line}")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_constant_has_its_value_in_front_of_each_kernel(dialect):
    declared = constants.shared_constants()
    declared |= {name: values[dialect] for name, values in constants.OF_DEVICES.items()}
    text = sources.kernel_source("trace", dialect)
    for name, value in declared.items():
        (typed,) = re.findall(rf"constexpr [a-z ]+ {name} = ([^;]+);", text)
        assert float(typed.rstrip("fu")) == value
        assert isinstance(value, int) == ("f" not in typed)


@pytest.mark.parametrize("name", [*constants.shared_constants(), *constants.OF_DEVICES])
def test_some_kernel_uses_every_constant(name):
    assert any(re.search(rf"\b{name}\b", path.read_text()) for path in FILES)


def test_a_shader_has_every_constant_that_it_uses():
    declared = constants.shader_declarations()
    for name, value in constants.shared_constants().items():
        assert f"const {name} = {value!r};\n" in declared
    used = {name for name in constants.shared_constants() for path in SHADERS
            if re.search(rf"\b{name}\b", path.read_text())}  # fmt: skip
    assert {"EARLY_STOP_TRANSMITTANCE", "DENSITY_LIMIT", "BRICK_WIDTH", "HASH_PRIME_Y"} <= used
