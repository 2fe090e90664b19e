"""Named arrays: the type of parameters, gradients and a sampler's state."""

from __future__ import annotations

import mlx.core as mx

Arrays = dict[str, mx.array]
"""Arrays by name."""

Shapes = dict[str, tuple[int, ...]]
"""The shapes of arrays by name."""
