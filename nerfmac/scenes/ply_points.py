"""The points of a PLY file, such as nerfstudio's sparse ones: binary or text, x, y and z."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from nerfmac.common.checks import LARGEST, InputError
from nerfmac.common.files import appearing

TYPES = {
    **dict.fromkeys(("char", "int8"), "i1"),
    **dict.fromkeys(("uchar", "uint8"), "u1"),
    **dict.fromkeys(("short", "int16"), "i2"),
    **dict.fromkeys(("ushort", "uint16"), "u2"),
    **dict.fromkeys(("int", "int32"), "i4"),
    **dict.fromkeys(("uint", "uint32"), "u4"),
    **dict.fromkeys(("float", "float32"), "f4"),
    **dict.fromkeys(("double", "float64"), "f8"),
}
COLOURS = ("red", "green", "blue")
FORMATS = {"ascii": "", "binary_little_endian": "<", "binary_big_endian": ">"}


def read_ply_points(path: Path) -> npt.NDArray[np.float64]:
    """The positions (n, 3) of the file's vertices, which have to be its first element.

    Raises InputError that names the file if it is no whole PLY file of points.
    """
    try:
        header, body = path.read_bytes().split(b"end_header", 1)
        kind, count, properties = _described(header.decode("ascii"))
        body = body[body.index(b"\n") + 1 :]
        rows = _rows(kind, count, properties, body)
        points = np.stack([rows[name].astype(np.float64) for name in "xyz"], axis=1)
    except (OSError, ValueError, KeyError, IndexError) as error:
        raise InputError(f"{path} is no whole PLY file of points: {error}") from error
    return points[(np.abs(points) <= LARGEST).all(axis=1)]


def write_ply_points(
    path: Path, points: npt.NDArray[np.float64], colours: npt.NDArray[np.uint8]
) -> None:
    """Write positions (n, 3) with sRGB colours (n, 3) to `path`, as a binary file.

    Raises InputError where it cannot be written.
    """
    kinds = [*((name, "<f4") for name in "xyz"), *((name, "u1") for name in COLOURS)]
    rows = np.empty(len(points), np.dtype(kinds))
    for index in range(3):
        rows["xyz"[index]], rows[COLOURS[index]] = points[:, index], colours[:, index]
    header = ["ply", "format binary_little_endian 1.0", f"element vertex {len(points)}"]
    header += [f"property float {name}" for name in "xyz"]
    header += [f"property uchar {name}" for name in COLOURS]
    with appearing(path) as partial:
        partial.write_bytes("\n".join([*header, "end_header", ""]).encode() + rows.tobytes())


def _described(header: str) -> tuple[str, int, list[tuple[str, str]]]:
    """The format, the number of vertices, and the name and type of each of their properties."""
    lines = [line.split() for line in header.splitlines()]
    if not lines or lines[0] != ["ply"]:
        raise ValueError("it does not begin with ply")
    kind = next(line[1] for line in lines if line[:1] == ["format"])
    elements = [index for index, line in enumerate(lines) if line[:1] == ["element"]]
    first, *others = elements
    if lines[first][1] != "vertex" or kind not in FORMATS:
        raise ValueError(f"its first element is {lines[first][1]}, its format {kind}")
    own = lines[first + 1 : others[0] if others else None]
    properties = [(line[2], TYPES[line[1]]) for line in own if line[:1] == ["property"]]
    return kind, int(lines[first][2]), properties


def _rows(
    kind: str, count: int, properties: list[tuple[str, str]], body: bytes
) -> dict[str, npt.NDArray[np.generic]]:
    names = [name for name, _ in properties]
    if kind == "ascii":
        numbers = [line.split() for line in body.decode().splitlines()[:count]]
        table = np.array(numbers, np.float64).reshape(count, len(names))
        return {name: table[:, index] for index, name in enumerate(names)}
    order = FORMATS[kind]
    rows = np.frombuffer(body, np.dtype([(n, order + t) for n, t in properties]), count)
    return {name: rows[name] for name in names}
