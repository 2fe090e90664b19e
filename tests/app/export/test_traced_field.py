"""The data that the exported page traces."""

import pytest

from nerfmac.app.export.traced_field import TracedField
from nerfmac.app.run import Run
from nerfmac.app.scenes import load_scene
from nerfmac.config import override
from nerfmac.config.sampling import NEAR
from tests.scene_factory import CONFIG, write_scene

pytestmark = pytest.mark.usefixtures("on_the_cpu")


@pytest.mark.parametrize(("near", "on_page"), [(0.4, NEAR), (0.02, 0.02)])
def test_a_user_of_the_page_may_come_close_whatever_the_near_plane_of_training(
    tmp_path, near, on_page
):
    scene = load_scene(write_scene(tmp_path / "balls"))
    run = Run.begin(scene, override(CONFIG, march={"near": near}), progress=False)
    assert TracedField.of(run).march["near"] == on_page
