"""Named arrays: what parameters, gradients and the state of a sampler are made of."""

from __future__ import annotations

import mlx.core as mx

Arrays = dict[str, mx.array]
"""Arrays by name."""

Shapes = dict[str, tuple[int, ...]]
"""The shapes of arrays by name."""
