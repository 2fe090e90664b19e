"""Metadata of 360 degree and stereo videos in MP4 files: the boxes `st3d` (layout of the eyes) and
`sv3d` (writing program, forward direction, and cropping of 360 degree frames), as specified in the
Spherical Video V2 RFC, github.com/google/spatial-media, docs/spherical-video-v2-rfc.md.

ffmpeg cannot write these boxes. They belong to the sample entry of the video track, in the index
`moov`. The images follow the index, so their offsets in the index are increased.
"""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

from nerfmac.common.files import appearing

STEREO_MODES = {None: 0, "over-under": 1, "side-by-side": 2}  # stereo_mode in the box st3d.
SAMPLE_ENTRY = {"moov": 8, "trak": 8, "mdia": 8, "minf": 8, "stbl": 8, "stsd": 16, "avc1": 86}
"""Number of bytes before the first inner box of each nested box, down to the H.264 sample entry.

ISO/IEC 14496-12, sections 8 and 12.1.3.
"""
CHUNK_OFFSETS = {"stco": "I", "co64": "Q"}  # Boxes with offsets of images, and their type.


def mark_spatial(path: Path, projection: str, stereo: str | None) -> None:
    """Add 360 degree and stereo metadata to an MP4 file, unless it is a perspective video for one
    eye.

    The arguments are values of `RenderOptions`.
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
    """Add boxes to the sample entry of an MP4 index (moov), and adjust sizes and chunk offsets."""
    parents = _offsets(index, list(SAMPLE_ENTRY))
    # The first inner box, avcC, is required for decoding. Optional boxes follow.
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
    """Return the offsets in bytes of nested boxes, outermost first, up to a missing box."""
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
    """Return the size in bytes and the name of the box at `offset`."""
    size, name = struct.unpack_from(">I4s", data, offset)
    return size, name.decode("latin-1")


def _box(name: str, content: bytes) -> bytes:
    return struct.pack(">I4s", 8 + len(content), name.encode()) + content


def _full_box(name: str, content: bytes) -> bytes:
    """Return an MP4 box with the version and flags set to zero."""
    return _box(name, bytes(4) + content)
