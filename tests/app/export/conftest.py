"""A run with the egg as its field, on the CPU."""

import mlx.core as mx
import pytest

from nerfmac.backend import choose_device
from tests.app.export.egg import egg_run


@pytest.fixture(scope="session")
def run(scene):
    device = mx.default_device()
    choose_device("cpu")
    yield egg_run(scene)
    mx.set_default_device(device)
