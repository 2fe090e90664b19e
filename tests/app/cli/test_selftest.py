"""`nerfmac selftest`: output, files, and errors."""

import json

import mlx.core as mx
import pytest

from nerfmac.app.measure.selftest import cases
from nerfmac.app.measure.selftest.specializations import specializations
from nerfmac.backend import CpuKernel, kernel, runs_kernel
from nerfmac.common.files import partial_path
from nerfmac.ops import spherical_harmonics
from tests.scene_factory import nerfmac

# One operation and one device: the whole takes half a minute.
QUICK = ("selftest", "--device", "cpu", "--operation", "spherical_harmonics")


def names(operation):
    return [str(case) for case in cases() if case.operation == operation]


def found(path):
    """Return the report, the entry of its device, and a dictionary of the cases that failed."""
    report = json.loads(path.read_text(), parse_constant=pytest.fail)
    (only,) = report["devices"]
    return report, only, {each["case"]: each for each in only["failed"]}


@pytest.fixture(scope="module")
def texts():
    return specializations()


def test_the_metal_text_is_written_as_mlx_gives_it(texts, tmp_path, capsys):
    folder = tmp_path / "new" / "metal"
    assert nerfmac("selftest", "--dump-metal", folder) == 0
    said = capsys.readouterr().out
    assert str(folder) in said
    assert f"{len(texts)} specializations" in said
    assert {path.name for path in folder.iterdir()} == {f"{name}.metal" for name in texts}
    # A Mac's file system takes names that differ in case alone for one.
    assert len({name.casefold() for name in texts}) == len(texts)
    for name, launch in texts.items():
        assert len(f".{name}.1234567890.metal") <= 255
        written = (folder / f"{name}.metal").read_text()
        comment, text = written[: -len(launch.text)], written[-len(launch.text) :]
        assert text == launch.text
        assert "[[kernel]]" in text
        lines = comment.splitlines()
        assert all(line.startswith("// ") for line in lines)
        assert comment.endswith("\n")
        assert " x ".join(map(str, launch.grid)) in comment
        assert sum(line.startswith("// buffer ") for line in lines) == text.count("[[buffer(")


@pytest.mark.parametrize("wrong", [lambda y: 1.01 * y, lambda y: mx.full(y.shape, mx.inf)])
def test_a_kernel_that_differs_from_its_reference_is_named(wrong, tmp_path, monkeypatch, capsys):
    right = spherical_harmonics.spherical_harmonics

    def spoilt(directions):
        outputs = right(directions)
        is_kernel = runs_kernel("spherical_harmonics")
        return wrong(outputs) if is_kernel and directions.shape[0] == 2 else outputs

    monkeypatch.setattr("nerfmac.app.measure.selftest.fields.spherical_harmonics", spoilt)
    path = tmp_path / "selftest.json"
    assert nerfmac(*QUICK, "--report", path) == 1
    line = next(x for x in capsys.readouterr().out.splitlines() if "spherical_harmonics-2 " in x)
    assert "DIFFERS: result 0" in line
    report, only, failed = found(path)
    assert report["complete"]
    assert not only["passed"]
    assert list(failed) == ["spherical_harmonics-2"]
    bad, _ = failed["spherical_harmonics-2"]["arrays"]
    tolerance = failed["spherical_harmonics-2"]["tolerance"]
    assert (bad["array"], bad["passed"]) == ("result 0", False)
    assert bad["error"] is None or bad["error"] > tolerance


def test_a_kernel_that_the_compiler_refuses_is_reported_and_the_others_go_on(tmp_path, capsys):
    header = "#include <cstdint>\nstruct uint3 { std::uint32_t x, y, z; };"
    broken = CpuKernel("nerfmac_broken", ["x"], ["y"], "y[0] = no_such_name;", header)

    def launch(build, **call):
        return (broken if call["output_shapes"][0][0] == 2 else build)(**call)

    path = tmp_path / "selftest.json"
    with kernel.launched_by(launch):
        assert nerfmac(*QUICK, "--report", path) == 1
    said = capsys.readouterr().out
    (line,) = (line for line in said.splitlines() if " spherical_harmonics-2 " in line)
    assert "BuildError" in line
    assert "1 of 3 cases" in said
    _, only, failed = found(path)
    assert only["cases"] == 3
    assert list(failed) == ["spherical_harmonics-2"]
    assert "no_such_name" in failed["spherical_harmonics-2"]["fault"]
    assert not only["passed"]


def test_an_interrupted_selftest_leaves_what_it_found(tmp_path, capsys):
    launches = []

    def launch(build, **call):
        launches.append(call["output_shapes"][0][0])
        if launches[-1] == 257:
            # As if it had come while the report was being written.
            partial_path(path).touch()
            raise KeyboardInterrupt
        return build(**call)

    path = tmp_path / "selftest.json"
    with kernel.launched_by(launch):
        assert nerfmac(*QUICK, "--report", path) == 130
    assert str(path) in capsys.readouterr().err
    report, only, _ = found(path)
    assert not report["complete"]
    assert only["cases"] == 2
    assert only["running"] == "spherical_harmonics-257"
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
