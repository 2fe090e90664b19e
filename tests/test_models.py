"""Each model and each encoding trains, is saved, comes back and is looked at like any other."""

import numpy as np
import pytest

import nerfmac
from nerfmac import Run
from nerfmac.app.export import extract_density, extract_mesh
from nerfmac.app.video import DIAGNOSTICS, OUTPUTS, RenderOptions
from nerfmac.app.viewer.images import Images
from nerfmac.config import VanillaConfig, override
from nerfmac.config.presets import PRESETS, preset, vanilla
from nerfmac.fields.encodings import encoding_of
from nerfmac.geometry.bounds import Bounds
from nerfmac.training.ray_budget import RayBudget
from tests.scene_factory import CONFIG

SMALL = VanillaConfig(width=16, layers=2, skip=0, coarse=8, fine=8)
pytestmark = pytest.mark.usefixtures("on_the_cpu")

CONFIGS = {
    "dense": override(CONFIG, encoding="dense"),
    "frequency": override(CONFIG, encoding="frequency"),
    "vanilla": override(
        vanilla(PRESETS["tiny"]), vanilla=SMALL, train={"rays": 96, "max_rays": 96}
    ),
}


@pytest.fixture(scope="module", params=CONFIGS)
def run(request, scene, tmp_path_factory):
    made = Run.begin(scene, CONFIGS[request.param], out=tmp_path_factory.mktemp("run"))
    losses = []
    made.train(steps=80, progress=False, on_report=lambda report: losses.append(report.loss))
    assert np.mean(losses[-3:]) < 0.9 * losses[0]
    return made


def test_it_comes_back_from_its_folder_and_renders_the_same(run, scene):
    loaded, camera = Run.load(run.folder), scene.splits["test"][0].camera
    assert loaded.config == run.config
    want, got = run.render(camera), loaded.render(camera)
    assert np.ptp(want.color) > 0.05
    assert np.array_equal(got.color, want.color)


def test_its_mesh_is_closed(run):
    trimesh = pytest.importorskip("trimesh", reason="needs the extra export")
    density = extract_density(run, resolution=16, progress=False).density
    half = float(np.median(density[density > 0])) / run.scene.placement.scale
    mesh = extract_mesh(run, resolution=16, threshold=half, smallest=0.0, progress=False)
    assert len(mesh.faces) > 100
    assert trimesh.Trimesh(mesh.vertices, mesh.faces, process=False).is_watertight


def test_the_viewer_draws_it(run, scene):
    camera = scene.splits["test"][0].camera
    for output in OUTPUTS:
        drawn = Images(run.trainer, run.state, RenderOptions(output)).draw(camera, 1.0)
        assert np.ptp(drawn.rgb) > 10, output


def test_the_viewer_says_what_a_model_without_an_occupancy_grid_lacks(run, scene):
    camera = scene.splits["test"][0].camera
    box = ((0.2, 0.2, 0.2), (0.8, 0.8, 0.8))
    for options in (*map(RenderOptions, DIAGNOSTICS), RenderOptions(crop=box)):
        images = Images(run.trainer, run.state, options)
        if run.config.model == "vanilla":
            with pytest.raises(nerfmac.InputError, match="require an occupancy grid"):
                images.draw(camera, 1.0)
        else:
            shape = images.draw(camera, 1.0).rgb.shape
            assert shape == (camera.lens.height, camera.lens.width, 3)


def test_no_two_vertices_of_a_dense_grid_share_an_entry_and_a_level_more_would():
    for name in PRESETS:
        config = override(PRESETS[name], encoding="dense")
        levels = encoding_of(config, Bounds(1.7)).levels
        assert not any(map(levels.is_hashed, range(levels.levels)))
        vertices, _, _ = levels.shapes[-1]
        assert (vertices + 2) ** 3 > 2**config.grid.log2_entries
        assert levels.shapes[0][0] == config.grid.coarsest


def test_a_step_of_every_vanilla_preset_has_room_for_its_rays():
    for name in PRESETS:
        config = preset(name, "cuda", 0, "vanilla")
        samples = config.vanilla.coarse + config.vanilla.fine
        assert RayBudget.of(config).rays(samples) == config.train.rays == config.train.max_rays
