"""The networks' activations over all that a float holds, against NumPy's float64."""

import mlx.core as mx
import numpy as np

from nerfmac.ops.networks import networks
from nerfmac.ops.networks_shape import NetworksShape

ROUNDOFF = 2.0**-24
SMALLEST = 1.2e-38  # of the normal numbers
SHAPE = NetworksShape(16, 16, 1, 1)
SUMS = np.float32([*np.linspace(-87.3, 88.0, 1001), -1e30, -110, -104, 0, 89, 1e30, np.nan])


def activated(sums: np.ndarray) -> list[np.ndarray]:
    """Density and colors of samples with these output sums of both networks."""
    features = np.zeros((len(sums), 16), np.float32)
    features[:, 3], features[:, 8] = np.maximum(sums, 0), np.maximum(-sums, 0)
    last = np.zeros((16, 16), np.float32)
    last[3], last[8] = 1.0, -1.0  # every output is the one less the other
    density = np.concatenate([np.eye(16, dtype=np.float32).ravel(), last.ravel()])
    # The first output of the embedding passes the sum on to the color network.
    first = np.zeros((32, 16), np.float32)
    first[0, 3], first[0, 8] = 1.0, -1.0
    color = np.concatenate([first.ravel(), last.ravel()])
    ray, used = mx.zeros(len(sums), mx.int32), mx.array([len(sums)])
    arrays = mx.array(features), mx.zeros((1, 16)), ray, used, mx.array(density), mx.array(color)
    return [np.array(each) for each in networks(*arrays, SHAPE)]


def test_the_density_is_exp_from_nothing_to_its_limit_and_nan_stays(run_by):
    with np.errstate(under="ignore"):
        want = np.exp(np.minimum(SUMS.astype(np.float64), 15)).astype(np.float32)
    # The exp function of MLX is less precise than the kernel, and flushes denormals to zero.
    rtol, atol = (4 * ROUNDOFF, 2e-45) if run_by == "kernel" else (64 * ROUNDOFF, SMALLEST)
    np.testing.assert_allclose(activated(SUMS)[0], want, rtol=rtol, atol=atol)


def test_colors_are_sigmoids_and_nan_stays(run_by):
    with np.errstate(over="ignore"):
        want = 1.0 / (1.0 + np.exp(-SUMS.astype(np.float64)))
    rtol = (6 if run_by == "kernel" else 64) * ROUNDOFF
    for channel in activated(SUMS)[1].T:
        np.testing.assert_allclose(channel, want, rtol=rtol, atol=4 * SMALLEST)
