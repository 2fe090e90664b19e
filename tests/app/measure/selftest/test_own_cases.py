"""A custom kernel is compared like ours; steps with infinite gradients are skipped."""

import mlx.core as mx
import pytest

from nerfmac.app.measure.selftest import case_of, cases, compare, compare_all
from nerfmac.backend import Kernel
from nerfmac.ops import loss_scale

pytestmark = pytest.mark.usefixtures("on_the_cpu")

SQUARE = """
template <typename In, typename Out>
METAL_FUNC void square(uint3 thread_index, int count, In x, Out y) {
  if (thread_index.x < uint(count)) y[thread_index.x] = x[thread_index.x] * x[thread_index.x];
}
template <typename In, typename Gradient, typename Out>
METAL_FUNC void square_gradient(uint3 thread_index, int count, In x, Gradient d_y, Out d_x) {
  const uint i = thread_index.x;
  if (i < uint(count)) d_x[i] = 2.0f * x[i] * d_y[i];
}
"""


def squared(text=SQUARE):
    """The square of an array, by kernels of this text."""
    axis = (mx.float32, "count")
    forward = Kernel("square", "square", {"x": axis}, {"y": axis}, source=text)
    gradient = Kernel(
        "square", "square_gradient", {"x": axis, "d_y": axis}, {"d_x": axis}, source=text
    )

    @mx.custom_function
    def square(x):
        return forward(x, grid=(x.size, 1, 1))[0]

    @square.vjp
    def square_vjp(x, d_y, _output):
        return gradient(x, d_y, grid=(x.size, 1, 1))[0]

    return square


def case(text=SQUARE, name="ten"):
    inputs = {"x": mx.arange(10, dtype=mx.float32) - 4}
    return case_of("square", name, squared(text), mx.square, inputs, terms=2)


def test_a_right_kernel_agrees_in_values_and_gradients(capsys):
    done = compare_all([case()])
    assert [outcome.array for outcome in done[0].outcomes] == ["result 0", "d x"]
    assert done[0].passed
    device, _, heading, line, total = capsys.readouterr().out.splitlines()
    assert device.startswith("cpu: ")
    assert heading.split() == ["case", "error", "tolerance"]
    assert line.split() == ["square-ten", "0.0e+00", "9.5e-07", "ok"]
    assert "2 of 2" in total


@pytest.mark.parametrize(
    ("right", "wrong", "differing"),
    [("2.0f * x[i]", "x[i]", ["d x"]), ("= x[thread_index.x] *", "=", ["result 0"])],
)
def test_a_wrong_value_or_gradient_is_named(capsys, right, wrong, differing):
    assert right in SQUARE
    (done,) = compare_all([case(SQUARE.replace(right, wrong))])
    assert done.differing == differing
    assert not done.passed
    assert f"DIFFERS: {differing[0]}" in capsys.readouterr().out


def differing():
    (case,) = (case for case in cases() if str(case) == "adam-not-finite")
    return {outcome.array for outcome in compare(case) if not outcome.passed}


def test_a_step_along_a_gradient_that_is_not_finite_changes_nothing():
    assert differing() == set()


@pytest.mark.parametrize(
    ("check", "wrong"),
    [
        (lambda total: mx.array(True), {"after nan", "after inf", "after -inf"}),
        (lambda total: total == total, {"after inf", "after -inf"}),
        (lambda total: mx.array(False), {"after 1.0"}),
    ],
)
def test_a_check_that_a_compiler_has_removed_fails_the_case(monkeypatch, check, wrong):
    monkeypatch.setattr(loss_scale.mx, "isfinite", check)
    assert differing() == wrong
