"""The operations that have variants, with the inputs of a training step (`StepInputs`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import mlx.core as mx

from nerfmac.backend import Arrays, working_dtype
from nerfmac.config import Config
from nerfmac.measure.inputs import StepInputs, slopes
from nerfmac.measure.selftest.comparison import Case
from nerfmac.ops.hash_encode import hash_encode
from nerfmac.ops.march import count_samples
from nerfmac.ops.networks import networks


class Trial(NamedTuple):
    """An operation that has variants, with inputs; the case computes what they must agree on."""

    variants: str
    """Its name in `nerfmac.backend.variants`."""
    case: Case


def trials(config: Config, extent: float) -> Iterator[Trial]:
    """A trial for each operation that has variants, with `config` in a scene of side `extent`."""
    inputs = StepInputs(config, extent)

    def counted() -> Arrays:
        return {"counts": count_samples(*inputs.marched)}

    # A sample on a cell's face may be in either.
    yield Trial("march_count", Case("march", "tuning", counted, 1, outliers=0.001))
    yield Trial("hash_encode_gradient", _encoding(inputs))
    case = _networks(inputs)
    yield Trial("networks_gradient", case)
    yield Trial("networks_gradient_rows", case)


def _encoding(inputs: StepInputs) -> Case:
    positions, table, used = inputs.positions, inputs.table, inputs.samples.used
    gradient = slopes((inputs.slots, inputs.grid.outputs), 24).astype(working_dtype())
    mx.eval(gradient)

    def run() -> Arrays:
        def encode(table: mx.array) -> mx.array:
            return hash_encode(positions, table, inputs.grid.levels, used)

        # The encoding itself is not evaluated, as nothing needs it.
        return {"d table": mx.vjp(encode, [table], [gradient])[1][0]}

    return Case("hash_encode", "tuning", run, 512, half_terms=1)


def _networks(inputs: StepInputs) -> Case:
    samples, features = inputs.samples, inputs.features.astype(working_dtype())
    gradients = [slopes((inputs.slots, 1), 26).reshape(-1), slopes((inputs.slots, 3), 27)]
    mx.eval(features, gradients)

    def run() -> Arrays:
        def evaluate(*arrays: mx.array) -> list[mx.array]:
            features, density, colour = arrays
            given = inputs.basis, samples.ray, samples.used, density, colour
            return list(networks(features, *given, inputs.shape))

        found = mx.vjp(evaluate, [features, *inputs.weights], gradients)[1]
        return dict(zip(("d features", "d density", "d colour"), found, strict=True))

    return Case("networks", "tuning", run, 512, half_terms=8)
