"""Finer levels fade in, from the coarsest quarter to all, in every kind of field."""

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.config import override
from nerfmac.config.presets import PRESETS, vanilla
from nerfmac.fields.encoded import EncodedField
from nerfmac.fields.encodings import coarse_to_fine_weights, encoding_of
from nerfmac.fields.vanilla import VanillaField
from nerfmac.geometry.bounds import Bounds
from nerfmac.geometry.samples import Samples
from tests.scene_factory import CONFIG

pytestmark = pytest.mark.usefixtures("on_the_cpu")

FIELDS = {
    "hash": lambda: EncodedField(encoding_of(CONFIG, Bounds(1.0)), CONFIG.networks),
    "frequency": lambda: EncodedField(
        encoding_of(override(CONFIG, encoding="frequency"), Bounds(1.0)), CONFIG.networks
    ),
    "vanilla": lambda: VanillaField(vanilla(PRESETS["tiny"]).vanilla, Bounds(1.0)),
}


def test_levels_come_in_one_after_the_other():
    weights = [
        np.array(coarse_to_fine_weights(8, mx.array(d))) for d in (0.0, 0.25, 0.5, 0.75, 1.0)
    ]
    np.testing.assert_allclose(weights[0], [1, 1, 0, 0, 0, 0, 0, 0], atol=1e-6)
    np.testing.assert_allclose(weights[1], [1, 1, 1, 0.5, 0, 0, 0, 0], atol=1e-6)
    np.testing.assert_allclose(weights[-1], np.ones(8), atol=1e-6)
    assert (np.diff(weights, axis=0) >= -1e-6).all()


@pytest.mark.parametrize("name", FIELDS)
def test_a_coarse_field_changes_less_over_a_short_way_and_the_whole_one_is_as_it_was(name):
    field = FIELDS[name]()
    parameters = field.init(mx.random.key(2))
    if "table" in parameters:
        parameters["table"] = 1e3 * parameters["table"]  # as after some training
    near = mx.random.uniform(0.3, 0.7, (64, 3), key=mx.random.key(3))

    def density(given: dict[str, mx.array], position: mx.array) -> np.ndarray:
        zero, ray = mx.zeros(64), mx.zeros(64, mx.int32)
        start = mx.array([0, 64], mx.int32)
        samples = Samples(position, zero, zero, ray, start, start[1:])
        return np.log(np.array(field(given, samples, mx.array([[0.0, 0.0, 1.0]]))[0]))

    def roughness(detail: float) -> float:
        given = field.coarse_to_fine(parameters, mx.array(detail))
        return float(np.abs(density(given, near + 0.004) - density(given, near)).mean())

    assert roughness(0.0) < 0.5 * roughness(1.0)
    whole = field.coarse_to_fine(parameters, mx.array(1.0))
    assert whole.keys() == parameters.keys()
    for part, values in whole.items():
        np.testing.assert_allclose(np.array(values), np.array(parameters[part]), atol=1e-6)
