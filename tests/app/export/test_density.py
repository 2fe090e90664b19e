"""The exported density is the field's."""

import struct
import zlib

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.app.export import DensityGrid, extract_density
from nerfmac.common.checks import InputError
from tests.app.export.egg import Egg, egg_run

CROP = ((-0.7, -0.5, -0.4), (0.5, 0.3, 0.1))


@pytest.fixture(scope="module")
def grid(run):
    return extract_density(run, resolution=30, crop=CROP, progress=False)


def test_the_density_is_the_fields_per_unit_of_the_files(grid, run):
    placement = run.scene.placement
    index = np.stack(np.indices(grid.density.shape), axis=-1)
    position = placement.to_scene(grid.origin + grid.spacing * index).reshape(-1, 3)
    want = np.array(Egg().density_at({}, mx.array(position, mx.float32))) * placement.scale
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


def test_slabs_make_no_difference(grid, run, monkeypatch):
    monkeypatch.setattr("nerfmac.app.export.density.BATCH", 130)
    again = extract_density(run, resolution=30, crop=CROP, progress=False)
    assert np.array_equal(again.density, grid.density)


ORIGIN, SPACING = np.array([1.5, -2.0, 0.25]), 0.125


class Reader:
    """Takes values one after another from a file's bytes."""

    def __init__(self, content: bytes) -> None:
        self.content, self.at = content, 0

    def take(self, form: str):
        values = struct.unpack_from("<" + form, self.content, self.at)
        self.at += struct.calcsize("<" + form)
        return values if len(values) > 1 else values[0]

    def text(self) -> bytes:
        return self.take(f"{self.take('I')}s")

    def bits(self, side: int) -> np.ndarray:
        flags = np.frombuffer(self.take(f"{side**3 // 8}s"), np.uint8)
        return np.argwhere(np.unpackbits(flags, bitorder="little").reshape(side, side, side))

    def packed(self) -> np.ndarray:
        how, length = self.take("bq")
        assert how == 0, "not: all that is inactive is zero"
        content = self.take(f"{abs(length)}s")
        return np.frombuffer(zlib.decompress(content) if length > 0 else content, "<f4")


def read(path) -> tuple[dict, np.ndarray, dict]:
    """Return metadata of the only grid, world positions (n, 4) of points, and values by index."""
    file = Reader(path.read_bytes())
    assert file.take("8s") == b" BDV\0\0\0\0"
    version, _, _, has_offsets, _, about, grids = file.take("IIIB36sII")
    assert (version, has_offsets, about, grids) == (224, 1, 0, 1)
    assert [file.text() for _ in range(3)] == [b"density", b"Tree_float_5_4_3", b""]
    start, values, end = file.take("3q")
    assert start == file.at
    assert end == len(file.content)
    assert file.take("I") == 1 | 2
    said = {}
    for _ in range(file.take("I")):
        key, kind, value = file.text(), file.text(), file.text()
        assert kind == b"string"
        said[key] = value
    assert file.text() == b"UniformScaleTranslateMap"
    placed = np.array(file.take("18d")).reshape(6, 3)
    buffers, background, tiles, uppers = file.take("IfII")
    assert (buffers, background, tiles) == (1, 0.0, 0)
    leaves = []
    for _ in range(uppers):
        corner = np.array(file.take("3i"))
        for lower in inner(file, 32):
            for leaf in inner(file, 16):
                leaves.append(corner + 128 * lower + 8 * leaf)
                file.bits(8)
    assert values == file.at
    found = {}
    for corner in leaves:
        places = corner + file.bits(8)
        found |= zip(map(tuple, places.tolist()), file.packed().tolist(), strict=True)
    assert file.at == end
    return said, placed, found


def inner(file: Reader, side: int) -> np.ndarray:
    """Return the children of a node without values."""
    children = file.bits(side)
    assert not len(file.bits(side))
    assert not len(file.packed())
    return children


@pytest.fixture
def density():
    """Asymmetric; dense enough to be packed in places, spread over several nodes of each kind."""
    values = np.zeros((4100, 19, 131), np.float32)
    values[3:14, 2:9, 120:] = np.arange(11 * 7 * 11).reshape(11, 7, 11) // 50
    values[[0, 4097, 4099], [18, 3, 5], [130, 0, 64]] = [0.5, 7.25, 1e9]
    return values


def test_each_point_has_its_density_as_fog_in_the_coordinates_of_the_files(density, tmp_path):
    DensityGrid(density, ORIGIN, SPACING).save(tmp_path / "d.vdb")
    said, (shift, *scales), found = read(tmp_path / "d.vdb")
    assert found == {tuple(place): density[tuple(place)] for place in np.argwhere(density).tolist()}
    assert said == {b"class": b"fog volume", b"name": b"density"}
    assert np.array_equal(shift, ORIGIN)
    assert np.array_equal(scales, np.outer([0.125, 0.125, 8, 64, 4], np.ones(3)))
