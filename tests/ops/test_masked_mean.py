"""The masked mean and its gradient equal their formulas, with and without a kernel."""

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.ops.masked_mean import masked_mean

pytestmark = pytest.mark.usefixtures("run_by")

ROUNDOFF = 2.0**-24
SCALE = mx.array(1024.0)


def drawn(rays: int, kept: float) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(rays)
    mask = (random.uniform(size=rays) < kept).astype(np.float32)
    return random.uniform(-1, 2, rays).astype(np.float32), mask


@pytest.mark.parametrize("rays", [1, 31, 256, 257, 1025, 30000])
@pytest.mark.parametrize("kept", [0.0, 0.6, 1.0])
def test_it_is_the_scaled_mean_of_the_values_with_mask_1(rays, kept):
    values, mask = drawn(rays, kept)
    mean, share = masked_mean(mx.array(values), mx.array(mask), SCALE)
    want = 1024 * values[mask == 1].astype(np.float64).mean() if mask.any() else 0.0
    assert (mean.shape, share.shape) == ((), ())
    # A few hundred partial sums of at most `rays` values are rounded.
    assert mean.item() == pytest.approx(want, abs=1024 * 400 * ROUNDOFF)
    assert share.item() == pytest.approx(mask.mean(dtype=np.float64), rel=4 * ROUNDOFF)


@pytest.mark.parametrize("rays", [1, 257, 1000])
@pytest.mark.parametrize("kept", [0.0, 0.6, 1.0])
def test_each_value_with_mask_1_has_the_same_gradient(rays, kept):
    values, mask = drawn(rays, kept)
    gradient = mx.grad(lambda v: 3.0 * masked_mean(v, mx.array(mask), SCALE).mean)(mx.array(values))
    want = 3 * 1024 * mask.astype(np.float64) / max(mask.sum(), 1)
    assert np.array(gradient) == pytest.approx(want, rel=8 * ROUNDOFF)


def test_no_gradient_flows_to_the_mask_and_the_scale():
    values, mask = map(mx.array, drawn(20, 0.5))
    gradients = mx.grad(lambda m, s: sum(masked_mean(values, m, s)), argnums=(0, 1))(mask, SCALE)
    assert not any(np.array(gradient).any() for gradient in gradients)


@pytest.mark.parametrize("place", [0, 300, 2999])
@pytest.mark.parametrize("kept", [0.0, 1.0])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_not_finite_makes_the_mean_not_finite(place, kept, value):
    values, mask = drawn(3000, 0.5)
    values[place], mask[place] = value, kept
    assert not np.isfinite(masked_mean(mx.array(values), mx.array(mask), SCALE).mean.item())


def test_a_compiled_function_has_the_same_result_and_gradient():
    values, mask = map(mx.array, drawn(700, 0.7))

    def run(values: mx.array, mask: mx.array, scale: mx.array) -> list[mx.array]:
        (mean, share), gradient = mx.value_and_grad(lambda v: tuple(masked_mean(v, mask, scale)))(
            values
        )
        return [mean, share, gradient]

    eager, compiled = run(values, mask, SCALE), mx.compile(run)(values, mask, SCALE)
    for one, other in zip(eager, compiled, strict=True):
        assert np.array(one) == pytest.approx(np.array(other), rel=8 * ROUNDOFF)
