"""Metadata of 360-degree and stereo video in an MP4: the boxes `st3d` and `sv3d`.

    st3d    stereo_mode: the layout of the eyes' images in a frame
    sv3d    a 360-degree frame: svhd (the writing program), proj (prhd: rotation of the forward
            direction; equi: cropping)

Source: Spherical Video V2 RFC, github.com/google/spatial-media, docs/spherical-video-v2-rfc.md.
ffmpeg has no option that writes these boxes. They belong in the sample entry of the video track, in
the index `moov`. The images come after it, so they move, and their offsets in the index grow.
"""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

from nerfmac.common.files import appearing

STEREO_MODES = {None: 0, "over-under": 1, "side-by-side": 2}
"""`RenderOptions.stereo` -> the field stereo_mode of the box st3d."""

SAMPLE_ENTRY = {"moov": 8, "trak": 8, "mdia": 8, "minf": 8, "stbl": 8, "stsd": 16, "avc1": 86}
"""Nested boxes down to the H.264 sample entry -> bytes of each before its first inner box.

ISO/IEC 14496-12, sections 8 and 12.1.3.
"""

CHUNK_OFFSETS = {"stco": "I", "co64": "Q"}
"""Boxes in `stbl` with the file offsets of the images -> an offset's type for `struct`."""


def mark_spatial(path: Path, projection: str, stereo: str | None) -> None:
    """Add the metadata of `RenderOptions`' `projection` and `stereo` to the MP4 `path`.

    A perspective video for one eye stays as it is. Raises `InputError` if the file cannot be
    written.
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
    """`index`, an MP4's moov box, with `boxes` added to its sample entry.

    Box sizes and chunk offsets are adjusted.
    """
    parents = _offsets(index, list(SAMPLE_ENTRY))
    # The first inner box is avcC, without which nothing is decoded; optional ones follow.
    first = parents[-1] + SAMPLE_ENTRY["avc1"]
    here = first + _header(index, first)[0]
    changed = bytearray(index[:here] + boxes + index[here:])
    for parent in parents:
        struct.pack_into(">I", changed, parent, _header(index, parent)[0] + len(boxes))
    for name, layout in CHUNK_OFFSETS.items():
        for box in _offsets(changed, ["moov", "trak", "mdia", "minf", "stbl", name])[5:]:
            (count,) = struct.unpack_from(">I", changed, box + 12)
            offsets = struct.unpack_from(f">{count}{layout}", changed, box + 16)
            moved = (offset + len(boxes) for offset in offsets)
            struct.pack_into(f">{count}{layout}", changed, box + 16, *moved)
    return bytes(changed)


def _offsets(data: bytes | bytearray, names: list[str]) -> list[int]:
    """Offsets in bytes of the nested boxes `names`, outermost first, up to a missing box."""
    offsets: list[int] = []
    offset, end = 0, len(data)
    for name in names:
        while offset < end and _header(data, offset)[1] != name:
            offset += _header(data, offset)[0]
        if offset >= end:
            break
        offsets.append(offset)
        end = offset + _header(data, offset)[0]
        offset += SAMPLE_ENTRY.get(name, 8)
    return offsets


def _header(data: bytes | bytearray, offset: int) -> tuple[int, str]:
    """Size in bytes and name of the box at `offset`."""
    size, name = struct.unpack_from(">I4s", data, offset)
    return size, name.decode("latin-1")


def _box(name: str, content: bytes) -> bytes:
    return struct.pack(">I4s", 8 + len(content), name.encode()) + content


def _full_box(name: str, content: bytes) -> bytes:
    """A box with a version and flags, all zero."""
    return _box(name, bytes(4) + content)
