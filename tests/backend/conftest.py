import mlx.core as mx
import pytest

from nerfmac.backend import choose_device


@pytest.fixture(autouse=True)
def on_the_cpu():
    device = mx.default_device()
    choose_device("cpu")
    yield
    mx.set_default_device(device)
