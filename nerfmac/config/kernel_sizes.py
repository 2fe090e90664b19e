"""Sizes that the kernels have: what a configuration may ask of them."""

FEATURES = (1, 2, 4, 8)
"""Allowed features of a grid's level: as in tiny-cuda-nn, powers of two that one load reads."""

WIDEST_FEATURES = 128
"""Most features of all levels together, by the memory of the networks' gradient kernel."""

WIDEST_LAYERS = 4
"""Most hidden layers of both networks at the largest width, whose gradient fills registers."""

WIDTHS = (16, 32, 64, 128)
"""Allowed widths of hidden layers, as in tiny-cuda-nn's fully fused networks."""
