import pytest

from nerfmac.app.run import train
from tests.scene_factory import CONFIG


@pytest.fixture(scope="module")
def trained(scene, tmp_path_factory):
    """Folder of a run of ten steps."""
    out = tmp_path_factory.mktemp("runs") / "run"
    train(scene, steps=10, config=CONFIG, out=out, device="cpu", progress=False)
    return out
