"""Reading and writing of points in PLY files, such as nerfstudio's sparse points."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nerfmac.common import LARGEST, Float64Array, InputError, Int32Array, UInt8Array, appearing

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
COLORS = ("red", "green", "blue")
PROPERTIES = {"u1": "uchar", "f4": "float", "f8": "double"}
"""Types of vertex properties in files that nerfmac writes, keyed by the NumPy type."""
Column = tuple[str, npt.NDArray[Any]]  # Name and little-endian values (n,) of a vertex property.
BYTE_ORDERS = {"binary_little_endian": "<", "binary_big_endian": ">"}


def read_ply_points(path: Path) -> Float64Array:
    """Read the vertex positions (n, 3) of a binary or text PLY file. The vertices must be the first
    element of the file. Vertices with coordinates that are not finite or exceed `LARGEST` are
    dropped."""
    try:
        header, body = path.read_bytes().split(b"end_header", 1)
        points = _positions(header.decode("ascii"), body[body.index(b"\n") + 1 :])
    except (OSError, ValueError, KeyError, IndexError, OverflowError) as error:
        raise InputError(f"{path} is not a complete PLY file of points: {error}") from error
    return points[(np.abs(points) <= LARGEST).all(axis=1)]


def write_ply_points(path: Path, points: Float64Array, colors: UInt8Array) -> None:
    """Write points (n, 3) with sRGB colors (n, 3) to a binary PLY file."""
    columns = [*zip("xyz", points.T.astype("<f4"), strict=True)]
    with appearing(path) as partial:
        partial.write_bytes(ply_bytes([*columns, *zip(COLORS, colors.T, strict=True)]))


def ply_bytes(columns: Sequence[Column], faces: Int32Array | None = None) -> bytes:
    """Return a binary PLY file with vertex properties and triangles of vertex indices (f, 3)."""
    rows = np.empty(len(columns[0][1]), [(name, values.dtype) for name, values in columns])
    header = ["ply", "format binary_little_endian 1.0", f"element vertex {len(rows)}"]
    for name, values in columns:
        rows[name] = values
        header.append(f"property {PROPERTIES[values.dtype.str[1:]]} {name}")
    corners = np.empty(0 if faces is None else len(faces), [("count", "u1"), ("vertex", "<i4", 3)])
    if len(corners):
        corners["count"], corners["vertex"] = 3, faces
        header += [f"element face {len(corners)}", "property list uchar int vertex_indices"]
    return "\n".join([*header, "end_header", ""]).encode() + rows.tobytes() + corners.tobytes()


def _positions(header: str, body: bytes) -> Float64Array:
    """Return vertex positions (n, 3). If the content is invalid, raise one of the exceptions that
    `read_ply_points` converts to `InputError`."""
    lines = [line.split() for line in header.splitlines()]
    if not lines or lines[0] != ["ply"]:
        raise ValueError("the file does not start with ply")
    (file_format,) = [line[1] for line in lines if line[:1] == ["format"]]
    first, *others = [index for index, line in enumerate(lines) if line[:1] == ["element"]]
    if lines[first][1] != "vertex" or file_format not in ("ascii", *BYTE_ORDERS):
        found = f"the first element is {lines[first][1]} in the format {file_format}"
        raise ValueError(f"{found}; expected vertex in a binary or ascii format")
    count, vertex = int(lines[first][2]), lines[first + 1 : others[0] if others else None]
    types = {line[2]: TYPES[line[1]] for line in vertex if line[:1] == ["property"]}
    if file_format == "ascii":
        numbers = [line.split() for line in body.decode().splitlines()[:count]]
        table = np.array(numbers, np.float64).reshape(count, len(types))
        return table[:, [[*types].index(name) for name in "xyz"]]
    order = BYTE_ORDERS[file_format]
    rows = np.frombuffer(body, np.dtype([(name, order + t) for name, t in types.items()]), count)
    return np.stack([rows[name].astype(np.float64) for name in "xyz"], axis=1)
