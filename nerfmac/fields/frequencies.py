"""`Frequencies`: the positional encoding of points and directions by sines and cosines.

    (p, sin(2^0 pi p), cos(2^0 pi p), ..., sin(2^(L-1) pi p), cos(2^(L-1) pi p)),   p in [-1, 1]

(Mildenhall et al. 2020, equation 4.) The paper leaves out p itself. Its published code puts p in
front, and so does this module.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import pi

import mlx.core as mx

from nerfmac.fields.coarseness import level_weights


@dataclass(frozen=True)
class Frequencies:
    """The encoding with `count` frequencies; it has no parameters."""

    count: int

    @property
    def outputs(self) -> int:
        """Features of a point."""
        return 3 * (1 + 2 * self.count)

    def weights(self, detail: mx.array) -> mx.array:
        """(outputs,) weights of the features that fade finer ones in, by `detail` () in [0, 1]."""
        return mx.concatenate([mx.ones(3), mx.repeat(level_weights(self.count, detail), 6)])

    def __call__(self, points: mx.array) -> mx.array:
        """(points, outputs) features of `points` (points, 3), whose coordinates lie in [-1, 1].

        Each sine and cosine takes three columns, one for each coordinate. Differentiable.
        """
        factors = pi * mx.power(2.0, mx.arange(self.count).astype(mx.float32))
        angles = points[:, None] * factors[:, None]
        waves = mx.stack([mx.sin(angles), mx.cos(angles)], axis=2)
        return mx.concatenate([points, waves.reshape(-1, 6 * self.count)], axis=1)
