"""Common helpers of the tests of the peer in PyTorch."""

import numpy as np
import torch

from nerfmac.fields.encoded import EncodedField
from nerfmac.fields.encodings import encoding_of
from nerfmac.geometry.bounds import Bounds

EPSILON = 2.0**-24
RANDOM = np.random.default_rng(3)


def parameters_of(config, extent, random=RANDOM):
    """A field that is opaque in places, as random parameters that are not tiny make it."""
    field = EncodedField(encoding_of(config, Bounds(extent)), config.networks)
    scale = {"table": 0.5, "density": 0.4, "color": 0.4}
    return {
        name: (scale[name] * random.standard_normal(spec.shape)).astype(np.float32)
        for name, spec in field.parameter_specs.items()
    }


def in_torch(arrays):
    return [torch.from_numpy(np.array(each)) for each in arrays]


def uncompiled(function, **_):
    return function
