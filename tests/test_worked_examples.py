"""The worked examples of `docs/extending.md` run, and their components learn."""

from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

import nerfmac
from nerfmac.config import override
from nerfmac.geometry.rays import camera_rays
from tests.scene_factory import CONFIG

pytestmark = pytest.mark.usefixtures("on_the_cpu")

PAGE = Path(__file__).parents[1] / "docs/extending.md"
MOST_LINES = 120


def example(name: str, steps: int) -> dict[str, Any]:
    """Run the code block that defines `name` with a small scene, and return its variables."""
    blocks = PAGE.read_text(encoding="utf-8").split("```python\n")[1:]
    (code,) = (part.partition("```")[0] for part in blocks if f"class {name}(" in part)
    assert len(code.splitlines()) <= MOST_LINES
    for old, new in {
        "builtin_scene_path())": "builtin_scene_path(), downscale=4, max_images=12)",
        "goal=nerfmac.Goal(seconds=120)": f'"tiny", nerfmac.Goal(steps={steps}), progress=False',
    }.items():
        assert old in code
        code = code.replace(old, new)
    names: dict[str, Any] = {}
    exec(code.replace('"small"', '"tiny"'), names)
    return names


def interrupt(_report):
    raise KeyboardInterrupt


def test_a_proposal_network_learns_beside_the_field_and_is_resumed(tmp_path):
    names = example("ProposalSampler", 100)
    run, method, scene = names["run"], names["method"], names["scene"]
    first, now = run.trainer.init().parameters, run.state.parameters
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
    density = run.trainer.field.density(run.state.average, points.reshape(-1, 3)).reshape(-1, 6)
    of_density = np.array(unit(density[:, 3:] - density[:, :3]))
    predicted = np.array(unit(mx.array(image.extras["normal"].reshape(-1, 3))))
    is_seen = image.opacity.ravel() > 0.9
    assert is_seen.sum() > 100
    assert (predicted * of_density).sum(axis=1)[is_seen].mean() > 0.3


def test_classes_of_label_images_are_rendered_in_other_views():
    names = example("SemanticField", 300)
    measure = names["intersection_over_union"]
    assert measure(names["run"], names["scene"], "test") > 0.6
