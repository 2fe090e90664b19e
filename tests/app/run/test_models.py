"""Each model and encoding trains, is saved, and is looked at; one that does not learn warns."""

import logging

import numpy as np
import pytest

import nerfmac
from nerfmac import Goal, Run
from nerfmac.app.export import extract_density, extract_mesh
from nerfmac.app.run import reporting, resume
from nerfmac.app.viewer.images import Images
from nerfmac.config import PRESETS, VanillaConfig, override, vanilla
from nerfmac.config.rendering import DIAGNOSTICS, OUTPUTS, RenderOptions
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
def run(request, scene):
    made = Run.begin(scene, CONFIGS[request.param])
    losses = []

    def record(report):
        losses.append(report.loss)

    for steps in (1, 80):
        resume(made, Goal(steps=steps), progress=False, on_report=record)
    assert np.mean(losses[-3:]) < 0.9 * losses[0]
    return made


def test_it_comes_back_from_its_folder_and_renders_the_same(run, scene, tmp_path):
    run.save(tmp_path)
    loaded, camera = Run.load(tmp_path), scene.splits["test"][0].camera
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
        drawn = Images(run.model, run.state, RenderOptions(output)).draw(camera, 1.0)
        assert np.ptp(drawn.rgb) > 10, output


def test_the_viewer_says_what_a_model_without_an_occupancy_grid_lacks(run, scene):
    camera = scene.splits["test"][0].camera
    box = ((0.2, 0.2, 0.2), (0.8, 0.8, 0.8))
    for options in (*map(RenderOptions, DIAGNOSTICS), RenderOptions(crop=box)):
        images = Images(run.model, run.state, options)
        if run.config.model == "vanilla":
            with pytest.raises(nerfmac.InputError, match="require an occupancy grid"):
                images.draw(camera, 1.0)
        else:
            shape = images.draw(camera, 1.0).rgb.shape
            assert shape == (camera.lens.height, camera.lens.width, 3)


def warned(scene, caplog, monkeypatch, steps: int, **changes) -> list[str]:
    monkeypatch.setattr(reporting, "CHECKED_AT", 150)
    run = Run.begin(scene, override(CONFIG, **changes), progress=False)
    with caplog.at_level(logging.WARNING, "nerfmac"):
        resume(run, Goal(steps=steps), progress=False)
    return [record.getMessage() for record in caplog.records]


def test_a_field_that_learns_nothing_is_said_once_with_what_to_try(scene, caplog, monkeypatch):
    assert warned(scene, caplog, monkeypatch, 220) == []
    (said,) = warned(scene, caplog, monkeypatch, 220, optimizer={"rate": 1e-9})
    assert "not learned the scene" in said
    assert "nerfmac inspect" in said
