"""Videos are decoded again; metadata of 360-degree and stereo video; failures leave nothing."""

import logging
import stat
import struct
import subprocess

import imageio_ffmpeg
import numpy as np
import pytest

from nerfmac.app.video import SideBySide, encoding, video_size, write_video
from nerfmac.backend import pretended
from nerfmac.common.checks import InputError
from nerfmac.config.rendering import RenderOptions
from nerfmac.geometry import Lens
from tests.app.video.ball import FRONT
from tests.app.video.test_render_video import render
from tests.decoding import decoded
from tests.killed import half_written

LISTS = 'case "$*" in *-encoders*) echo " V.. libx264 H.264"; exit;; esac\n'
"""First lines of a replacement for ffmpeg: it lists H.264 as an available encoder."""
HEIGHT, WIDTH = 46, 70  # even, and no multiple of a codec's 16-pixel block


def frame(index: int) -> np.ndarray:
    """Return a frame with smooth colors that identify its number and orientation."""
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    red = np.full_like(x, 30 * index)
    return np.stack([red, 40 + 3 * y, 20 + 3 * x], axis=-1).astype(np.uint8)


def test_a_video_gives_back_its_frames_in_number_order_size_and_color(tmp_path):
    abandoned = half_written(tmp_path / "video.mp4")
    write_video(tmp_path / "video.mp4", (frame(i) for i in range(8)), fps=12.5)
    assert not abandoned.exists()
    about, got = decoded(tmp_path / "video.mp4")
    assert got.shape == (8, HEIGHT, WIDTH, 3)
    assert "yuv420p(tv, bt709/bt709/iec61966-2-1" in about
    assert "12.50 fps" in about
    for index in range(8):
        error = got[index].astype(float) - frame(index)
        assert np.abs(error).mean() < 2.5, f"frame {index}"
        assert np.abs(error.mean(axis=(0, 1))).max() < 2.5, f"frame {index} has a color cast"
    assert [path.name for path in tmp_path.iterdir()] == ["video.mp4"]


@pytest.mark.parametrize("fault", [KeyboardInterrupt, RuntimeError, BrokenPipeError])
@pytest.mark.parametrize("rendered", [0, 3])
def test_an_interrupted_render_leaves_the_folder_as_it_was(tmp_path, fault, rendered):
    (tmp_path / "video.mp4").write_bytes(b"an older video")

    def frames():
        yield from (frame(i) for i in range(rendered))
        raise fault("halfway")

    with pytest.raises(fault):
        write_video(tmp_path / "video.mp4", frames(), fps=30)
    assert [path.name for path in tmp_path.iterdir()] == ["video.mp4"]
    assert (tmp_path / "video.mp4").read_bytes() == b"an older video"


SAID = """[out#0/mp4 @ 0x5654a8303c80] No space left on device
[out#0/mp4 @ 0x5654a8303c80] Error closing file: No space left on device
"""


@pytest.mark.parametrize("reads", ["head -c 100 > /dev/null", "cat > /dev/null"])
def test_an_encoder_that_fails_is_quoted_and_leaves_nothing(tmp_path, monkeypatch, reads):
    encoder = tmp_path / "encoder"
    encoder.write_text(f"#!/bin/sh\n{LISTS}{reads}\ncat >&2 <<END\n{SAID}END\nexit 1\n")
    encoder.chmod(encoder.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", str(encoder))
    (tmp_path / "out").mkdir()
    with pytest.raises(InputError, match=r"ffmpeg reports: No space left on device$"):
        write_video(tmp_path / "out" / "video.mp4", (frame(i % 8) for i in range(40)), fps=30)
    assert list((tmp_path / "out").iterdir()) == []


def test_a_place_that_cannot_be_written_is_refused_before_a_frame_is_rendered(tmp_path):
    def never():
        raise AssertionError("a frame was rendered for nothing")
        yield

    (tmp_path / "folder.mp4").mkdir()
    places = {
        tmp_path / "absent" / "video.mp4": "No such file or directory",
        tmp_path / "folder.mp4": "it is a folder",
        tmp_path / "video.avi": "expected one of .mp4, .webm, .gif",
        tmp_path / "video": "expected one of .mp4",
    }
    for path, fault in places.items():
        with pytest.raises(InputError, match=fault):
            write_video(path, never(), fps=30)
    with pytest.raises(InputError, match="fps is 0; expected at least 1"):
        write_video(tmp_path / "video.mp4", never(), fps=0)


LISTED = """ V....D libx264              libx264 H.264 (codec h264)
 V....D h264_videotoolbox    VideoToolbox H.264 Encoder (codec h264)
"""


@pytest.mark.parametrize("is_mac", [False, True])
def test_the_macs_own_encoder_is_taken_where_ffmpeg_has_it(tmp_path, monkeypatch, is_mac):
    told, listed = tmp_path / "told", tmp_path / "listed"
    listed.write_text(LISTED if is_mac else LISTED.splitlines()[0] + "\n")
    program = tmp_path / "ffmpeg"
    program.write_text(
        "#!/bin/sh\n"
        f'for last; do :; done; if [ "$last" = -encoders ]; then cat {listed}; exit; fi\n'
        f'echo "$@" > {told}; cat > /dev/null\n'
        '[ "$last" = - ] || echo whole > "${last#file:}"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", str(program))
    write_video(tmp_path / "video.mp4", [frame(0), frame(1)], fps=24)
    flags = told.read_text().split()
    assert flags[flags.index("-c:v") + 1] == ("h264_videotoolbox" if is_mac else "libx264")
    assert ("-crf" in flags, "-q:v" in flags) == (not is_mac, is_mac)
    assert "out_color_matrix=bt709" in told.read_text()
    assert (tmp_path / "video.mp4").read_text() == "whole\n"


STUB = """#!/bin/sh
# Lists the encoder of Macs, which fails: at once, or after the frames that are tried.
for last; do :; done
if [ "$last" = -encoders ]; then cat {listed}; exit; fi
case "$*" in
  *videotoolbox*)
    case "{fails} $*" in
      later*-f\\ null*) cat > /dev/null; exit;;
      later*) head -c 20000 > /dev/null;;
    esac
    echo "[h264_videotoolbox @ 0x1] Error: cannot create compression session: -12908" >&2
    exit 1;;
esac
exec {ffmpeg} "$@"
"""


@pytest.fixture
def failing_mac(tmp_path, monkeypatch):
    """Make ffmpeg one whose encoder for Macs fails `at once` or `later`."""
    monkeypatch.setattr(encoding, "_failed", set())

    def use(fails):
        (tmp_path / "listed").write_text(LISTED)
        program = tmp_path / "ffmpeg"
        ffmpeg = imageio_ffmpeg.get_ffmpeg_exe()
        text = STUB.format(listed=tmp_path / "listed", fails=fails, ffmpeg=ffmpeg)
        program.write_text(text)
        program.chmod(0o755)
        monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", str(program))

    return use


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize("fails", ["at once", "later"])
def test_no_frame_is_lost_if_the_encoder_of_a_mac_fails(
    run, tmp_path, monkeypatch, caplog, failing_mac, fails, resume
):
    failing_mac(fails)
    caplog.set_level(logging.INFO)
    numbers = []
    images = SideBySide.images

    def counted(self, frames, chosen):
        for number, image in zip(chosen, images(self, frames, chosen), strict=True):
            numbers.append(number)
            yield image

    monkeypatch.setattr(SideBySide, "images", counted)
    out = tmp_path / "video.mp4"
    cameras = run.orbit(frames=12, size=(64, 48))
    render(run, cameras, out, fps=12, resume=resume)
    assert sorted(numbers) == [*range(12)]  # Each frame was rendered once.
    assert len(decoded(out)[1]) == 12
    assert "-12908" in caplog.text
    assert "libx264" in caplog.text
    assert {path.name for path in tmp_path.iterdir()} == {"ffmpeg", "listed", "video.mp4"}


def told(path):
    """Return ffmpeg's description of a video, including side data."""
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-i", str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stderr


def test_ffmpeg_reads_what_a_video_says(run, tmp_path):
    shots = {
        "flat": RenderOptions(),
        "all": RenderOptions(projection="equirectangular"),
        "eyes": RenderOptions(stereo="side-by-side", eye_distance=0.1),
        "both": RenderOptions(projection="equirectangular", stereo="over-under", eye_distance=0.1),
    }
    said = {}
    for name, shot in shots.items():
        render(run, [FRONT] * 2, tmp_path / f"{name}.mp4", shot)
        said[name] = told(tmp_path / f"{name}.mp4")
    for name, text in said.items():
        assert ("equirectangular" in text) == (name in ("all", "both")), text
        assert ("side by side" in text) == (name == "eyes")
        assert ("top and bottom" in text) == (name == "both")
    render(run, [FRONT] * 3, tmp_path / "all.mp4", shots["all"], resume=True, overwrite=True)
    assert "equirectangular" in told(tmp_path / "all.mp4")


BEFORE_INNER = {
    **dict.fromkeys(("moov", "trak", "mdia", "minf", "stbl", "sv3d", "proj"), 8),
    **{"stsd": 16, "avc1": 86},
}


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


@pytest.mark.parametrize(
    ("device", "photo", "size"),
    [
        ("cpu", (1920, 1080), (720, 404)),
        ("cpu", (600, 900), (480, 720)),
        ("cpu", (401, 300), (401, 300)),
        ("metal", (1920, 1080), (1920, 1080)),
    ],
)
def test_a_video_on_a_cpu_is_smaller_than_large_photos(device, photo, size):
    with pretended(device):
        assert video_size(Lens(*photo, 500.0, 500.0, 10.0, 10.0)) == size
