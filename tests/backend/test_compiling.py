"""The compile mode of MLX is changed inside the context managers and restored afterwards."""

import mlx.core as mx
import pytest

from nerfmac.backend import Traces, choose_device, compile_seldom, compiling, uncompiled, unfused
from nerfmac.backend.device import pretended

pytestmark = pytest.mark.usefixtures("on_the_cpu")


@pytest.fixture
def fused(tmp_path):
    """Whether a function that is compiled now has its operations fused, by its graph."""

    def tells(compiled) -> bool:
        mx.export_to_dot(str(tmp_path / "graph.dot"), compiled(mx.ones(5)))
        return "Compiled" in (tmp_path / "graph.dot").read_text()

    return tells


def curve(x: mx.array) -> mx.array:
    return mx.exp(x * 2.0) + 1.0


def test_what_runs_seldom_is_not_fused_on_cuda(fused):
    with pretended("cuda"):
        seldom = compile_seldom(curve)
        assert not fused(seldom)
        assert seldom(mx.array([0.0, 1.0])).tolist() == pytest.approx([2, 8.389056])
        with unfused():
            assert not fused(mx.compile(curve))
        assert fused(mx.compile(curve))
    assert fused(compile_seldom(curve))


def test_where_compiling_is_off_it_stays_off():
    traced = []

    def noted(x: mx.array) -> mx.array:
        traced.append(x)
        return x * 2.0

    with pretended("cuda"):
        seldom = compile_seldom(noted)
        with uncompiled():
            seldom(mx.ones(1))
            with uncompiled():
                pass
            seldom(mx.ones(1))
        assert len(traced) == 2
        seldom(mx.ones(1))
        seldom(mx.ones(1))
    assert len(traced) == 3


def test_without_the_function_of_mlx_all_is_fused(fused, monkeypatch):
    monkeypatch.setattr(compiling.mx, "__file__", "/nowhere/core.so")
    compiling._compile_mode.cache_clear()
    with pretended("cuda"):
        assert fused(compile_seldom(curve))
    monkeypatch.undo()
    compiling._compile_mode.cache_clear()
    choose_device("cpu")


def test_each_trace_is_counted_and_a_second_one_is_a_fault(caplog):
    traces = Traces()
    twice = traces.compiled(lambda x: x * 2.0, "double")
    thrice = traces.compiled(lambda x: x * 3.0, "triple")
    with uncompiled():
        assert twice(mx.ones(1)).tolist() == [2.0]
    assert traces.counts.total() == 0
    for _ in range(2):
        assert (twice(mx.ones(1)) + thrice(mx.ones(1))).tolist() == [5.0]
    assert traces.counts == {"double": 1, "triple": 1}
    assert traces.needless == 0
    assert not caplog.records
    twice(mx.ones((2, 2)))
    assert traces.needless == 1
    (record,) = caplog.records
    assert (record.levelname, *record.args) == ("WARNING", "double", 2)
