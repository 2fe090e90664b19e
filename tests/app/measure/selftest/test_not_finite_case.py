"""The selftest case that proves that steps with infinite gradients are skipped."""

import mlx.core as mx
import pytest

from nerfmac.app.measure.selftest import cases, compare
from nerfmac.training import loss_scale

pytestmark = pytest.mark.usefixtures("on_the_cpu")


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
