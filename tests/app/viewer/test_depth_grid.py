"""The grid of 1 / distance, and the settings that the page sends."""

import zlib

import numpy as np
import pytest

from nerfmac import InputError, load_scene
from nerfmac.app.run import CONFIGURED
from nerfmac.app.viewer.depth_grid import deflated_grid, inverse_grid
from nerfmac.app.viewer.live_training import Preview
from tests.app.scenes.scene_files import write_transforms
from tests.app.viewer.conftest import Page
from tests.scene_factory import COARSE


def vertices(length, cells):
    """Places of the vertices along a side, in pixels, without the two outside the image."""
    return np.arange(cells + 1) * length / cells


def test_on_a_slanted_plane_each_vertex_has_the_planes_value():
    row, column = np.mgrid[:60, :80] + 0.5
    inverse = 0.2 + 0.001 * column + 0.0005 * row
    grid = inverse_grid((1.0 / inverse).astype(np.float32), 10, 6)
    want = 0.2 + 0.001 * vertices(80, 10) + 0.0005 * vertices(60, 6)[:, None]
    assert grid.shape == (9, 13)
    assert grid[2:-2, 2:-2] == pytest.approx(want[1:-1, 1:-1], rel=1e-5)
    assert np.array_equal(grid[0], grid[1])  # outside, the edge is repeated
    assert np.array_equal(grid[:, -1], grid[:, -2])


def test_every_cell_that_a_near_surface_or_its_rim_touches_moves_with_it():
    depth = np.full((64, 96), 4.0, np.float32)
    depth[24:32, 40:48] = 1.0  # whole cells, so that the rim touches those around
    grid = inverse_grid(depth, 12, 8)[1:-1, 1:-1]
    near = np.zeros((9, 13), bool)
    for row in range(24 - 1, 32 + 1):
        for column in range(40 - 1, 48 + 1):
            cell = row // 8, column // 8
            near[cell[0] : cell[0] + 2, cell[1] : cell[1] + 2] = True
    assert grid[near] == pytest.approx(1.0)
    assert grid[~near] == pytest.approx(0.25)


def test_where_nothing_is_seen_it_is_infinitely_far():
    assert not inverse_grid(np.zeros((8, 8), np.float32), 2, 2).any()
    data, form = deflated_grid(np.zeros((8, 8), np.float32), 16, 16)
    assert not np.frombuffer(zlib.decompress(data), "<u2").any()
    assert form["largest"] > 0.0


def test_the_codes_are_the_grid_in_sixteen_bits():
    rng = np.random.default_rng(3)
    depth = rng.uniform(0.5, 9.0, (30, 50)).astype(np.float32)
    data, form = deflated_grid(depth, 100, 60)
    assert (form["columns"], form["rows"]) == (23, 15)  # 100 / 5 and 60 / 5 cells, and three more
    codes = np.frombuffer(zlib.decompress(data), "<u2").reshape(15, 23)
    grid = inverse_grid(depth, 20, 12)
    assert form["largest"] == pytest.approx(grid.max())
    assert codes * form["largest"] / 65535 == pytest.approx(grid, abs=form["largest"] / 65535)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("mode", "x-ray", "mode is 'x-ray'; expected one of: color"),
        ("background", "red", "background is 'red'"),
        ("exposure", 5, "exposure is 5; expected between -4 and 4"),
        ("exposure", float("nan"), "exposure is nan"),
        ("share", 1.5, "share is 1.5"),
        ("rate", 0.0, "rate is 0; expected between 0.1 and 10"),
        ("rays", 0, "rays is 0"),
        ("seconds", 0, "seconds is 0"),
        ("crop", [[0, 0, 0]], "crop is"),
        ("crop", [[0, 0, 0], [1, -1, 1]], "lowest corner before the highest"),
        ("color", "red", "setting is 'color'; expected one of: background, crop, exposure, fov"),
    ],
)
def test_a_value_that_cannot_be_is_refused(page, name, value, words):
    before = page.session.settings, page.session.display
    with pytest.raises(InputError, match=words.replace("(", r"\(")):
        page.session.set({name: value})
    assert (page.session.settings, page.session.display) == before


def test_the_background_becomes_the_mean_color_of_the_images_unless_a_user_has_chosen_one(tmp_path):
    scene = load_scene(write_transforms(tmp_path, 3), split="none")
    first, other = (Page(Preview(scene, COARSE, CONFIGURED, None)).open() for _ in range(2))
    for each in (first, other):
        each.work()
    assert first.kernel.target().options.background == (1.0, 1.0, 1.0)
    other.session.set({"background": "#102030"})
    for each in (first, other):
        before, training = each.kernel.target(), each.session.training
        training.is_preparing = True
        while training.is_preparing:
            training.prepare()
        assert each.session.run.scene.mean_color is not None
        is_known = each.kernel.target() is not before
        assert is_known == (each is first)
    shown = first.kernel.target().options.background
    assert shown == pytest.approx(first.session.run.scene.backdrop, abs=0.005)
    assert other.kernel.display.background == "#102030"
    assert Page(first.session.run).session.display.color == shown
