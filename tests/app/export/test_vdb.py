"""A .vdb file stores the density of each point at its position.

The reader in this file only uses the layout: nodes, bits, and leaves at the offsets in the file.
"""

import struct
import zlib

import numpy as np
import pytest

from nerfmac.app.export.density import DensityGrid

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


def test_each_point_has_its_density_and_nothing_else_is_there(density, tmp_path):
    DensityGrid(density, ORIGIN, SPACING).save(tmp_path / "d.vdb")
    _, _, found = read(tmp_path / "d.vdb")
    assert found == {tuple(place): density[tuple(place)] for place in np.argwhere(density).tolist()}


def test_it_is_a_fog_volume_in_the_coordinates_of_the_files(density, tmp_path):
    DensityGrid(density, ORIGIN, SPACING).save(tmp_path / "d.vdb")
    said, placed, _ = read(tmp_path / "d.vdb")
    assert said == {b"class": b"fog volume", b"name": b"density"}
    shift, *scales = placed
    assert np.array_equal(shift, ORIGIN)
    assert np.array_equal(
        np.array(scales), np.array([[0.125], [0.125], [8], [64], [4]]) * [1, 1, 1]
    )


def test_an_empty_grid_is_a_file_too(tmp_path):
    DensityGrid(np.zeros((3, 9, 4), np.float32), ORIGIN, SPACING).save(tmp_path / "d.VDB")
    assert not read(tmp_path / "d.VDB")[2]
