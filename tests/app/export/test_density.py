"""The exported density is the field's."""

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.app.export import extract_density
from nerfmac.common.checks import InputError
from tests.app.export.egg import Egg, egg_run

CROP = ((-0.7, -0.5, -0.4), (0.5, 0.3, 0.1))


@pytest.fixture(scope="module")
def grid(run):
    return extract_density(run, resolution=30, crop=CROP, progress=False)


def test_the_lattice_covers_the_box_with_cubic_cells(grid):
    assert grid.spacing == pytest.approx(1.2 / 30)
    assert grid.origin == pytest.approx(CROP[0])
    x, y, z = grid.density.shape
    assert (x, y, z) == (31, 21, 14)
    assert -0.4 + grid.spacing * (z - 1) >= 0.1


def test_the_density_is_the_fields_per_unit_of_the_files(grid, run):
    placement = run.scene.placement
    index = np.stack(np.indices(grid.density.shape), axis=-1)
    position = placement.to_scene(grid.origin + grid.spacing * index).reshape(-1, 3)
    want = np.array(Egg().density({}, mx.array(position, mx.float32))) * placement.scale
    assert want.max() > 1000 * want.min()
    assert grid.density.ravel() == pytest.approx(want, rel=1e-3)


def test_where_nothing_is_occupied_the_density_is_zero(scene, run):
    bare = egg_run(scene)
    resolution = bare.config.occupancy.resolution
    bits = np.zeros(bare.state.sampling["bits"].shape, np.uint32)
    bits[3] = 1
    bare.state.sampling["bits"] = mx.array(bits)
    grid = extract_density(bare, resolution=8, progress=False)
    assert grid.spacing == pytest.approx(1 / (8 * resolution * run.scene.placement.scale))
    whole = extract_density(bare, resolution=8, crop=CROP, progress=False)
    assert (whole.density == 0.0).all()
    bare.state.sampling["bits"] = mx.zeros(bits.shape, mx.uint32)
    with pytest.raises(InputError, match="occupancy grid of the run is empty"):
        extract_density(bare, progress=False)


def test_what_is_saved_is_read_as_it_was(grid, tmp_path):
    grid.save(tmp_path / "density.npz")
    read = np.load(tmp_path / "density.npz")
    assert np.array_equal(read["density"], grid.density)
    assert np.array_equal(read["origin"], grid.origin)
    assert float(read["spacing"]) == grid.spacing
    with pytest.raises(InputError, match=r"density.txt': .* must be \.npz or \.vdb"):
        grid.save(tmp_path / "density.txt")


def test_slabs_make_no_difference(grid, run, monkeypatch):
    monkeypatch.setattr("nerfmac.app.export.density.SLAB", 900)
    monkeypatch.setattr("nerfmac.app.export.density.BATCH", 130)
    again = extract_density(run, resolution=30, crop=CROP, progress=False)
    assert np.array_equal(again.density, grid.density)


def test_a_crop_ends_where_the_scenes_cube_does(run):
    half = 0.5 / run.scene.placement.scale
    crop = ((-99.0, -0.1, -0.1), (0.0, 0.1, 99.0))
    grid = extract_density(run, resolution=10, crop=crop, progress=False)
    assert grid.origin == pytest.approx([-half, -0.1, -0.1], abs=1e-6)
    last = grid.origin + grid.spacing * (np.array(grid.density.shape) - 1)
    assert last == pytest.approx([0.0, 0.1, half], abs=grid.spacing)
