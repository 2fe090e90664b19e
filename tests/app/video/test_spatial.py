"""Metadata of MP4 files for 360-degree and stereo players; other players are not affected."""

import struct
import subprocess

import imageio_ffmpeg
import numpy as np
import pytest

from nerfmac.app.video import RenderOptions, render_video, write_video
from tests.app.video.ball import FRONT
from tests.app.video.test_encoding import frame
from tests.decoding import decoded

BEFORE_INNER = {
    **dict.fromkeys(("moov", "trak", "mdia", "minf", "stbl", "sv3d", "proj"), 8),
    **{"stsd": 16, "avc1": 86},
}
"""Bytes of a box before the boxes in it."""


def boxes(data, place=0, end=None, above=""):
    """The boxes in `data` by their path: where each begins, and all its bytes."""
    found = {}
    end = len(data) if end is None else end
    while place < end:
        size, name = struct.unpack_from(">I4s", data, place)
        assert 8 <= size <= end - place, f"{above}/{name} has {size} bytes"
        path = f"{above}/{name.decode('latin-1')}"
        found[path] = place, data[place : place + size]
        if inner := BEFORE_INNER.get(path.rpartition("/")[2]):
            found |= boxes(data, place + inner, place + size, path)
        place += size
    assert place == end
    return found


ENTRY = "/moov/trak/mdia/minf/stbl/stsd/avc1"


@pytest.mark.parametrize(("stereo", "mode"), [(None, 0), ("over-under", 1), ("side-by-side", 2)])
def test_a_panorama_has_the_boxes_of_spherical_video(tmp_path, stereo, mode):
    frames = [frame(i) for i in range(5)]
    write_video(tmp_path / "flat.mp4", frames, fps=10)
    write_video(tmp_path / "all.mp4", frames, 10, "equirectangular", stereo)
    flat, data = ((tmp_path / name).read_bytes() for name in ("flat.mp4", "all.mp4"))
    found = boxes(data)
    assert found[f"{ENTRY}/st3d"][1] == b"\0\0\0\x0dst3d" + bytes(4) + bytes([mode])
    assert found[f"{ENTRY}/sv3d/svhd"][1][12:] == b"nerfmac\0"
    assert found[f"{ENTRY}/sv3d/proj/prhd"][1][8:] == bytes(4 + 12)
    assert found[f"{ENTRY}/sv3d/proj/equi"][1][8:] == bytes(4 + 16)
    inner = [name for name in found if name.startswith(f"{ENTRY}/") and name.count("/") == 8]
    assert [name.rpartition("/")[2] for name in inner][:3] == ["avcC", "st3d", "sv3d"]
    # The first chunk is at the offset in the index, and the rest of the file has not changed.
    (first,) = struct.unpack_from(">I", found["/moov/trak/mdia/minf/stbl/stco"][1], 16)
    assert first == found["/mdat"][0] + 8
    assert found["/mdat"][1] == boxes(flat)["/mdat"][1]
    assert found["/moov"][0] < found["/mdat"][0]
    assert not set(boxes(flat)) - set(found)
    assert np.array_equal(decoded(tmp_path / "all.mp4")[1], decoded(tmp_path / "flat.mp4")[1])


def told(path):
    """Return ffmpeg's description of a video, including side data."""
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-i", str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stderr


def test_ffmpeg_reads_what_a_video_says(run, tmp_path):
    shots = {
        "flat": RenderOptions(),
        "all": RenderOptions(projection="equirectangular"),
        "eyes": RenderOptions(stereo="side-by-side", eyes=0.1),
        "both": RenderOptions(projection="equirectangular", stereo="over-under", eyes=0.1),
    }
    said = {}
    for name, shot in shots.items():
        render_video(run, [FRONT] * 2, tmp_path / f"{name}.mp4", shot, progress=False)
        said[name] = told(tmp_path / f"{name}.mp4")
    for name, text in said.items():
        assert ("equirectangular" in text) == (name in ("all", "both")), text
        assert ("side by side" in text) == (name == "eyes")
        assert ("top and bottom" in text) == (name == "both")
    render_video(run, [FRONT] * 3, tmp_path / "all.mp4", shots["all"], resume=True, overwrite=True)
    assert "equirectangular" in told(tmp_path / "all.mp4")
