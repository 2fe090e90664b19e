"""What an MP4 says to players of 360-degree and stereo video: the boxes `st3d` and `sv3d`.

    st3d    how the eyes' pictures are laid out in a frame: stereo_mode
    sv3d    that a frame is all around: svhd (who says so), proj (prhd: how the forward direction is
            turned; equi: how much of the picture is cropped)

Source: Spherical Video V2 RFC, github.com/google/spatial-media, docs/spherical-video-v2-rfc.md.
ffmpeg has no option that writes them. They belong in the sample entry of the video track. Its index
(`moov`) stands before the pictures: so these move, and the index is told by how much.
"""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

from nerfmac.common.files import appearing

STEREO_MODES = {None: 0, "over-under": 1, "side-by-side": 2}
"""The numbers of the layouts that `Shot.stereo` names."""

SAMPLE_ENTRY = {"moov": 8, "trak": 8, "mdia": 8, "minf": 8, "stbl": 8, "stsd": 16, "avc1": 86}
"""The boxes around what describes H.264 frames, each in the one before, with the bytes of each
before its first inner box (ISO/IEC 14496-12, 8 and 12.1.3)."""

CHUNK_OFFSETS = {"stco": "I", "co64": "Q"}
"""The boxes of `stbl` that say where in the file the pictures are, with the type of an offset for
`struct`."""


def mark_spatial(path: Path, projection: str, stereo: str | None) -> None:
    """Write into the MP4 `path` how players show it; a flat one for one eye stays as it is.

    `projection` and `stereo` are those of a `Shot`. Raises `InputError` as `appearing` does.
    """
    if projection == "perspective" and stereo is None:
        return
    boxes = _full_box("st3d", bytes([STEREO_MODES[stereo]]))
    if projection == "equirectangular":
        ahead_and_uncropped = _full_box("prhd", bytes(12)) + _full_box("equi", bytes(16))
        boxes += _box("sv3d", _full_box("svhd", b"nerfmac\0") + _box("proj", ahead_and_uncropped))
    with path.open("rb") as video, appearing(path) as partial, partial.open("wb") as marked:
        kind = ""
        while kind != "moov":
            header = video.read(8)
            size, kind = _header(header, 0)
            box = header + video.read(size - 8)
            marked.write(_with_boxes(box, boxes) if kind == "moov" else box)
        shutil.copyfileobj(video, marked)


def _with_boxes(index: bytes, boxes: bytes) -> bytes:
    """The `index`, a whole moov, with the `boxes` in its sample entry, for pictures behind it."""
    around = _places(index, list(SAMPLE_ENTRY))
    # The first inner box is avcC, without which nothing is decoded; optional ones follow.
    first = around[-1] + SAMPLE_ENTRY["avc1"]
    here = first + _header(index, first)[0]
    changed = bytearray(index[:here] + boxes + index[here:])
    for place in around:
        struct.pack_into(">I", changed, place, _header(index, place)[0] + len(boxes))
    for name, layout in CHUNK_OFFSETS.items():
        for place in _places(changed, ["moov", "trak", "mdia", "minf", "stbl", name])[5:]:
            (count,) = struct.unpack_from(">I", changed, place + 12)
            offsets = struct.unpack_from(f">{count}{layout}", changed, place + 16)
            moved = (offset + len(boxes) for offset in offsets)
            struct.pack_into(f">{count}{layout}", changed, place + 16, *moved)
    return bytes(changed)


def _places(data: bytes | bytearray, names: list[str]) -> list[int]:
    """Where the boxes with these `names` begin, each in the one before; it ends where one lacks."""
    places: list[int] = []
    place, end = 0, len(data)
    for name in names:
        while place < end and _header(data, place)[1] != name:
            place += _header(data, place)[0]
        if place >= end:
            break
        places.append(place)
        end = place + _header(data, place)[0]
        place += SAMPLE_ENTRY.get(name, 8)
    return places


def _header(data: bytes | bytearray, place: int) -> tuple[int, str]:
    """Size in bytes and name of the box that begins at `place`."""
    size, name = struct.unpack_from(">I4s", data, place)
    return size, name.decode("latin-1")


def _box(name: str, content: bytes) -> bytes:
    return struct.pack(">I4s", 8 + len(content), name.encode()) + content


def _full_box(name: str, content: bytes) -> bytes:
    """A box with a version and flags, all zero."""
    return _box(name, bytes(4) + content)
