"""The comparator rejects what elementwise tolerances let through."""

from functools import partial

import mlx.core as mx
import numpy as np
import pytest
from numerics import assert_matches, assert_unbiased

ROUNDOFF = float(np.finfo(np.float32).eps)


def gradient() -> np.ndarray:
    """Return a small gradient, as a mean over thousands of rays has it: entries near 1e-5."""
    return np.random.default_rng(3).normal(scale=1e-5, size=(64, 3))


def test_an_array_matches_itself_up_to_rounding():
    want = gradient()
    assert_matches(want, want, rel=0.0, name="same")
    assert_matches(want.astype(np.float32), want, rel=ROUNDOFF, name="rounded")
    for dtype in (mx.float32, mx.float16, mx.bfloat16):
        assert_matches(mx.array([1.0, -2.0, 0.5], dtype), [1.0, -2.0, 0.5], rel=0.0, name="MLX's")


@pytest.mark.parametrize(
    ("fault", "spoil"),
    [
        ("relative error", lambda want: np.zeros_like(want)),
        ("relative error", lambda want: -want),
        ("relative error", lambda want: want * (np.arange(3) != 1)),  # a term dropped
        ("relative error", lambda want: want[::-1]),
        ("relative error", lambda want: 1.01 * want),
        ("not finite", lambda want: np.where(want == want.max(), np.nan, want)),
        ("not finite", lambda want: np.where(want == want.max(), np.inf, want)),
        ("shape", lambda want: want.ravel()),
        ("shape", lambda want: want[:1]),  # would broadcast
    ],
)
def test_a_wrong_array_is_rejected(fault, spoil):
    want = gradient()
    with pytest.raises(AssertionError, match=fault):
        assert_matches(spoil(want), want, rel=1e-3, name="spoiled")


@pytest.mark.parametrize(
    ("fault", "want"),
    [
        ("nothing to compare", np.zeros((0, 3))),
        ("all zero", np.zeros((5, 3))),
        ("reference is not finite", np.full((5, 3), np.nan)),
    ],
)
def test_a_comparison_that_says_nothing_is_rejected(fault, want):
    with pytest.raises(AssertionError, match=fault):
        assert_matches(want, want, rel=1.0, name="empty")


def test_outliers_hide_neither_a_nan_nor_a_wrong_array():
    want = gradient()
    with pytest.raises(AssertionError, match="relative error"):
        assert_matches(-want, want, rel=1e-3, name="flipped", outliers=0.05)
    nan = np.where(want == want.max(), np.nan, want)
    with pytest.raises(AssertionError, match="not finite"):
        assert_matches(nan, want, rel=1e-3, name="nan", outliers=0.05)
    with pytest.raises(AssertionError, match="would hide"):
        assert_matches(want, want, rel=1e-3, name="greedy", outliers=0.5)
    lone = np.eye(1, 100, 7)
    with pytest.raises(AssertionError, match="all zero"):
        assert_matches(0.0 * lone, lone, rel=1e-3, name="lone", outliers=0.01)


@pytest.mark.parametrize(
    ("fault", "spoil"),
    [
        ("factor of 1.02", lambda want: 1.02 * want),
        ("factor of 0.98", lambda want: 0.98 * want),
        ("mean signed error is 2.00%", lambda want: want + 0.02 * np.abs(want).mean()),
        ("cosine is", lambda want: want + 0.1 * np.roll(want, 1, axis=0)),
    ],
)
def test_a_bias_of_two_percent_is_rejected_though_the_relative_error_is_allowed(fault, spoil):
    want = gradient()
    for compare in (assert_unbiased, partial(assert_matches, rel=0.2)):
        with pytest.raises(AssertionError, match=fault):
            compare(spoil(want), want, name="biased")
