"""The two stacked networks in NumPy's float64: inputs for them, results, and finite differences."""

from functools import cache
from itertools import pairwise
from math import sqrt

import numpy as np

from nerfmac.ops.networks import NetworksShape

TRAINED = ("features", "density_weights", "color_weights")
RESULTS = ("density", "color")
Values = dict[str, np.ndarray]


def drawn(shape: NetworksShape, slots: int, per_ray: int = 7) -> Values:
    """Inputs that no exchange of rows, columns or rays leaves as they are."""
    random = np.random.default_rng(slots)
    values = {
        "features": random.normal(0.2, 1.0, (slots, shape.features)),
        "basis": random.normal(-0.3, 1.0, (slots // per_ray + 4, 16)),
        "ray": np.arange(slots)[::-1] // per_ray + 2,
        "used": np.array([slots]),
    }
    for name in ("density", "color"):
        matrices = [
            random.normal(0.0, sqrt(2.0 / rows), rows * columns)
            for rows, columns in getattr(shape, name).matrices
        ]
        values[f"{name}_weights"] = np.concatenate(matrices)
    return {
        name: each.astype(np.float32).astype(np.float64) if each.dtype == np.float64 else each
        for name, each in values.items()
    }


def mixes(slots: int) -> list[np.ndarray]:
    """Gradients of the two results."""
    random = np.random.default_rng(slots + 1)
    return [random.normal(size=size).astype(np.float32) for size in ((slots,), (slots, 3))]


def layers(inputs: np.ndarray, weights: np.ndarray, widths: list[int]) -> np.ndarray:
    """Layer by layer, cutting the matrices off the front of the flat weights."""
    for layer, (rows, columns) in enumerate(pairwise(widths)):
        matrix, weights = weights[: rows * columns], weights[rows * columns :]
        inputs = inputs @ matrix.reshape(rows, columns)
        if layer < len(widths) - 2:
            inputs = np.maximum(inputs, 0.0)
    assert not weights.size
    return inputs


def evaluate(values: Values, shape: NetworksShape) -> list[np.ndarray]:
    """The oracle: density and color."""
    hidden = [shape.width] * shape.density_layers
    embedding = layers(values["features"], values["density_weights"], [shape.features, *hidden, 16])
    inputs = np.concatenate([embedding, values["basis"][values["ray"]]], axis=1)
    hidden = [shape.width] * shape.color_layers
    color = layers(inputs, values["color_weights"], [32, *hidden, 16])[:, :3]
    return [np.exp(embedding[:, 0] - shape.density_bias), 1.0 / (1.0 + np.exp(-color))]


@cache
def differences(shape: NetworksShape, slots: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Finite differences of the mixed results at entries of each argument, and these entries."""
    values, step, found = drawn(shape, slots), 1e-6, {}

    def mixed() -> float:
        results = evaluate(values, shape)
        return sum(float((m * r).sum()) for m, r in zip(mixes(slots), results, strict=True))

    for name in TRAINED:
        flat = values[name].reshape(-1)
        chosen = np.arange(flat.size)
        if flat.size > 1100:
            between = np.random.default_rng(3).choice(chosen[1:-1], 300, replace=False)
            chosen = np.concatenate([chosen[:1], between, chosen[-1:]])
        want = np.zeros(chosen.size)
        for place, index in enumerate(chosen):
            before = flat[index]
            flat[index] = before + step
            ahead = mixed()
            flat[index] = before - step
            want[place] = (ahead - mixed()) / (2 * step)
            flat[index] = before
        found[name] = chosen, want
    return found
