"""Comparators for arrays of floats, tested in `test_numerics.py`.

Elementwise tolerances are not suitable for gradients: each entry of the gradient of a mean is tiny,
so an absolute tolerance accepts anything, including zeros. Therefore arrays are compared as
vectors, relative to their norm, and conditions that could make a comparison empty are errors.
"""

import mlx.core as mx
import numpy as np
from numpy.typing import ArrayLike


def _vector(values: ArrayLike) -> np.ndarray:
    """Return `values` as float64; bfloat16, unknown to NumPy, passes through float32."""
    if isinstance(values, mx.array) and values.dtype == mx.bfloat16:
        values = values.astype(mx.float32)
    return np.asarray(values, np.float64)


def assert_matches(
    got: ArrayLike, want: ArrayLike, *, rel: float, name: str, outliers: float = 0.0
) -> None:
    """Check that `got` matches `want`: same shape, finite, and `|got - want| <= rel |want|`.

    Args:
        got: Array to check.
        want: Expected array.
        rel: Relative tolerance. Write it as the unit roundoff, times the number of summed terms,
            times a small factor.
        outliers: Fraction of entries, at most 0.05, with the largest errors to exclude from the
            comparison. It is for functions with jumps, where roundoff alone may move an entry to
            the other side. Excluded entries must still be finite.

    The remaining entries must also pass `assert_unbiased`.
    """
    assert 0.0 <= outliers <= 0.05, f"{name}: leaving out {outliers:.0%} would hide a fault"
    got, want = _vector(got), _vector(want)
    assert got.shape == want.shape, f"{name}: shape {got.shape}, expected {want.shape}"
    assert want.size, f"{name}: nothing to compare"
    assert np.isfinite(want).all(), f"{name}: the reference is not finite"
    bad = int((~np.isfinite(got)).sum())
    assert bad == 0, f"{name}: {bad} of {got.size} entries are not finite"

    error, scale = np.abs(got - want).ravel(), np.abs(want).ravel()
    kept = np.argsort(error, kind="stable")[: error.size - int(outliers * error.size)]
    length = float(np.linalg.norm(scale[kept]))
    assert length > 0.0, f"{name}: the reference is all zero, so this compares nothing"
    relative = float(np.linalg.norm(error[kept])) / length
    worst = np.unravel_index(int(error.argmax()), want.shape)
    assert relative <= rel, (
        f"{name}: relative error {relative:.2e} > {rel:.1e}; "
        f"worst at {tuple(map(int, worst))}: {got[worst]:.6g}, expected {want[worst]:.6g}"
    )
    near = np.argsort(np.abs(got - want), axis=None, kind="stable")[: kept.size]
    assert_unbiased(got.ravel()[near], want.ravel()[near], name=name)


def assert_unbiased(
    got: ArrayLike, want: ArrayLike, *, name: str, bias: float = 0.015, cosine: float = 0.999
) -> None:
    """Fail if `got` differs from `want` by more than noise with a mean of zero.

    A relative error may be noise, and training averages noise out, or a bias, which remains. Three
    values distinguish the two; two of them must be at most `bias`, and one at least `cosine`: the
    scale of the projection of `got` on `want`, relative to 1; the mean of the signed error,
    relative to the mean magnitude of `want`; and the cosine of the angle between the two.
    """
    got, want = _vector(got).ravel(), _vector(want).ravel()
    length, inner = float(np.linalg.norm(want)), float(got @ want)
    assert length > 0.0, f"{name}: the reference is all zero, so this compares nothing"
    scale = inner / length**2 - 1.0
    assert abs(scale) <= bias, f"{name}: too large by a factor of {1.0 + scale:.4f}"
    shift = float((got - want).mean() / np.abs(want).mean())
    assert abs(shift) <= bias, f"{name}: the mean signed error is {shift:.2%}"
    angle = inner / (length * float(np.linalg.norm(got)))
    assert angle >= cosine, f"{name}: the cosine is {angle:.5f}, expected at least {cosine}"
