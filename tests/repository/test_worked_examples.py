"""The worked examples of `docs/extending.md` run, and their components learn."""

from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

import nerfmac
from nerfmac.app.export import extract_mesh
from nerfmac.config import override
from nerfmac.config.rendering import RenderOptions
from nerfmac.geometry.rays import camera_rays
from nerfmac.rendering.view_renderer import ViewRenderer
from tests.app.viewer.conftest import Page
from tests.scene_factory import CONFIG

pytestmark = pytest.mark.usefixtures("on_the_cpu")

PAGE = Path(__file__).parents[2] / "docs/extending.md"
MOST_LINES = 120


def source(name: str) -> str:
    """Return the code block that defines `name`."""
    blocks = PAGE.read_text(encoding="utf-8").split("```python\n")[1:]
    (code,) = (part.partition("```")[0] for part in blocks if f"class {name}(" in part)
    return code


def example(name: str, steps: int) -> dict[str, Any]:
    """Run the code block that defines `name` with a small scene, and return its variables."""
    code = source(name)
    assert len(code.splitlines()) <= MOST_LINES
    for old, new in {
        "builtin_scene_path())": "builtin_scene_path(), downscale=4, max_images=12)",
        "goal=nerfmac.Goal(seconds=120)": f'"tiny", nerfmac.Goal(steps={steps}), progress=False',
    }.items():
        assert old in code
        code = code.replace(old, new)
    names: dict[str, Any] = {}
    exec(code, names)
    return names


def interrupt(_report):
    raise KeyboardInterrupt


def test_a_proposal_network_learns_beside_the_field_and_is_resumed(tmp_path):
    names = example("ProposalSampler", 100)
    run, method, scene = names["run"], names["method"], names["scene"]
    first, now = run.model.init(run.views("train", progress=False)).parameters, run.state.parameters
    assert all(not mx.array_equal(first[name], now[name]) for name in first)
    assert run.evaluate("test", progress=False).psnr > 18.0

    config = override(CONFIG, train={"rays": 64})
    settings = {"method": method, "goal": nerfmac.Goal(steps=40), "progress": False}
    whole = nerfmac.train(scene, config=config, **settings)
    stopped = nerfmac.train(scene, config=config, out=tmp_path, on_report=interrupt, **settings)
    assert 0 < stopped.state.step < 40
    resumed = nerfmac.resume(tmp_path, scene=scene, **settings)
    for name, values in whole.state.arrays().items():
        assert mx.array_equal(values, resumed.state.arrays()[name]), name


def test_predicted_normals_follow_those_of_the_density():
    names = example("NormalField", 300)
    run, unit, camera = names["run"], names["unit"], names["scene"].cameras("test")[0]
    image = run.render(camera)
    assert image.extras["normal"].shape == image.color.shape
    rays, depth = camera_rays(camera), mx.array(image.depth.reshape(-1, 1))
    step = 0.01 * mx.eye(3)
    points = (rays.origin + rays.direction * depth)[:, None] + mx.concatenate([step, -step])[None]
    density = run.model.trained(run.state).density(points.reshape(-1, 3)).reshape(-1, 6)
    of_density = np.array(unit(density[:, 3:] - density[:, :3]))
    predicted = np.array(unit(mx.array(image.extras["normal"].reshape(-1, 3))))
    is_seen = image.opacity.ravel() > 0.9
    assert is_seen.sum() > 100
    assert (predicted * of_density).sum(axis=1)[is_seen].mean() > 0.3


@pytest.mark.parametrize(
    "name",
    [
        "Appearance",
        *(
            pytest.param(name, marks=pytest.mark.daily)
            for name in ("ScaleAware", "CoarseToFine", "NormalField", "SemanticField")
        ),
        pytest.param("ProposalSampler", marks=pytest.mark.daily),
    ],
)
def test_an_example_is_saved_resumed_viewed_and_exported(name, tmp_path):
    names = example(name, 60)
    run, method, scene = names["run"], names["method"], names["scene"]
    first = run.model.init(run.views("train", progress=False)).parameters
    moved = [not mx.array_equal(first[each], run.state.parameters[each]) for each in first]
    assert all(moved)
    run.save(tmp_path / "run")
    loaded = nerfmac.Run.load(tmp_path / "run", method=method)
    camera = scene.cameras("test")[0]
    assert np.array_equal(loaded.render(camera).color, run.render(camera).color)

    # A training that is interrupted and resumed has the same bits as one that is not.
    config = override(CONFIG, train={"rays": 64})
    settings = {"method": method, "goal": nerfmac.Goal(steps=32), "progress": False}
    whole = nerfmac.train(scene, config=config, **settings)
    stopped = nerfmac.train(
        scene, config=config, out=tmp_path / "on", on_report=interrupt, **settings
    )
    assert 0 < stopped.state.train_frac == stopped.state.step / 32 < 1
    resumed = nerfmac.resume(tmp_path / "on", scene=scene, **settings)
    for each, values in whole.state.arrays().items():
        assert mx.array_equal(values, resumed.state.arrays()[each]), each
    assert resumed.state.train_frac == 1.0

    # The viewer and exports show the field that is rendered.
    options = RenderOptions(output="rgb")
    shown = ViewRenderer(run.model.trained(run.state), options).render(camera)
    colors = np.array(shown.values).reshape(run.render(camera).color.shape)
    np.testing.assert_allclose(colors, run.render(camera).color, atol=0.02)
    page = Page(run)
    page.open().work()
    assert len(page.take("frame")) == 1
    mesh = extract_mesh(run, resolution=24, threshold=0.1, progress=False)
    assert len(mesh.faces) > 10
    assert np.ptp(mesh.colors, axis=0).max() > 0


def test_classes_of_label_images_are_rendered_in_other_views():
    names = example("SemanticField", 300)
    measure = names["intersection_over_union"]
    assert measure(names["run"], names["scene"], "test") > 0.6
