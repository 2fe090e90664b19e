"""Encoding of frames, uint8 (h, w, 3) sRGB, to H.264 in MP4, VP9 in WebM, or an animated GIF, and
of single frames to PNG and OpenEXR files.

ffmpeg encodes frames one at a time in a separate process. The pixel format is 4:2:0, the only
format that all players support, and requires an even width and height. The file specifies the color
matrix BT.709, so that players do not guess it from the frame size. A GIF has a palette of 256
colors per frame, and its frame times are rounded to hundredths of a second.

360 degree and stereo videos in MP4 files contain the boxes `st3d` (layout of the eyes) and `sv3d`
(writing program, forward direction, and cropping of 360 degree frames), as specified in the
Spherical Video V2 RFC, github.com/google/spatial-media, docs/spherical-video-v2-rfc.md. ffmpeg
cannot write these boxes. They belong to the sample entry of the video track, in the index `moov`.
The images follow the index, so their offsets in the index are increased.
"""

import re
import shutil
import struct
import subprocess
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from itertools import chain
from math import inf
from pathlib import Path
from typing import TypeVar

import numpy as np
from PIL import Image

from nerfmac.app.capture.video import ask_ffmpeg, child_process, ffmpeg
from nerfmac.app.scenes.images import opened
from nerfmac.app.video.frames import FrameValues
from nerfmac.common import InputError, appearing, checks, interval, log
from nerfmac.config.rendering import RenderOptions

Item = TypeVar("Item")
Send = Callable[[np.ndarray], None]

QUALITY = 18  # Constant rate factor of H.264: 0 is lossless, 18 is visually lossless.
WEBM_QUALITY = 24  # Constant rate factor of VP9 (0 to 63), similar to `QUALITY`.
HARDWARE_QUALITY = 65  # Quality of the encoder of Macs (1 to 100), similar to `QUALITY`.
VIDEOS = {".mp4": "libx264", ".webm": "libvpx-vp9", ".gif": "gif"}  # ffmpeg's encoders.
HARDWARE = {".mp4": "h264_videotoolbox"}  # Encoder of Macs that does not use the CPU.
MAX_FPS = {".gif": 50.0}  # Most players play faster GIFs too slowly.
_failed: set[str] = set()  # Encoders that have failed in this process.
MAX_WAITING = 4  # Maximum number of items that wait for the background thread.


class HardwareError(InputError):
    """Failure of the encoder of Macs during a video. The next video is encoded by the CPU."""


def write_video(
    path: Path | str,
    frames: Iterable[np.ndarray],
    fps: float,
    projection: str = "perspective",
    stereo: str | None = None,
) -> None:
    """Write frames of the same size, uint8 (h, w, 3), to a video. The extension .mp4, .webm, or
    .gif determines the format. `projection` and `stereo` are values of `RenderOptions` for the
    metadata of an MP4 file."""
    path = Path(path)
    check_video(path, fps)
    with appearing(path) as partial:
        frames = iter(frames)
        first = next(frames, None)
        if first is None:
            raise InputError(f"there are no frames to write to {path}; pass at least one frame")
        _check_frame(first, 0, np.shape(first))
        height, width = first.shape[:2]
        if (width, height) != even(path, (width, height)):
            raise InputError(
                f"frames have {width}x{height} pixels; {path.suffix} requires an even size"
            )
        with _encoder(partial, width, height, fps) as send, in_background(send) as submit:
            for index, frame in enumerate(chain([first], frames)):
                _check_frame(frame, index, first.shape)
                submit(frame)
        if path.suffix.lower() == ".mp4":
            mark_spatial(partial, projection, stereo)


def check_video(path: Path, fps: float) -> None:
    """Raise `InputError` if a video cannot be written on this machine."""
    extension = path.suffix.lower()
    if extension not in VIDEOS:
        extensions = ", ".join(VIDEOS)
        raise InputError(f"cannot write a video to '{path}': expected one of {extensions}")
    checks.number("fps", fps, low=1, high=MAX_FPS.get(extension, inf))
    encoder(VIDEOS[extension])


def even(path: Path, size: tuple[int, int]) -> tuple[int, int]:
    """Return the largest frame size of a video that is at most `size`: even, except for GIF."""
    if path.suffix.lower() == ".gif":
        return size
    return size[0] // 2 * 2, size[1] // 2 * 2


@contextmanager
def in_background(work: Callable[[Item], None]) -> Iterator[Callable[[Item], None]]:
    """Context manager that yields a function `submit(item)`, which runs `work(item)` on a
    background thread in the order of submission. On exit, even after an exception or Ctrl-C, all
    items are finished. An exception in `work` is raised by a later call of `submit` or on exit."""
    waiting: deque[Future[None]] = deque()

    def timed(item: Item) -> None:
        with interval("encode"):
            work(item)

    with ThreadPoolExecutor(1, "nerfmac encoder") as pool:

        def submit(item: Item) -> None:
            with interval("wait for the encoder"):
                while waiting and (waiting[0].done() or len(waiting) > MAX_WAITING):
                    waiting.popleft().result()
            waiting.append(pool.submit(timed, item))

        yield submit
        for future in waiting:
            future.result()


def uses_hardware(path: Path, size: tuple[int, int], fps: float) -> bool:
    """Return whether the encoder of Macs will encode a video, if `size` is even."""
    return _encoder_for(path, *even(path, size), fps)[1] in HARDWARE.values()


def _encoder_for(path: Path, width: int, height: int, fps: float) -> tuple[str, str]:
    """Return the path of ffmpeg and the name of its encoder for a video. The encoder of Macs is
    used only if it can encode two frames, because it may not support the size."""
    extension = path.suffix.lower()
    if (codec := HARDWARE.get(extension)) and codec not in _failed:
        with suppress(InputError):
            program = encoder(codec)
            if _encodes(program, codec, *_options(extension, codec, width, height, fps)):
                return program, codec
    return encoder(VIDEOS[extension]), VIDEOS[extension]


@cache
def _encodes(program: str, codec: str, *options: str) -> bool:
    """Return whether ffmpeg can encode two black frames, and log why it cannot."""
    width, height = map(int, options[options.index("-s") + 1].split("x"))
    cause = _fault([program, *options, "-f", "null", "-"], bytes(2 * 3 * width * height))
    if cause:
        log.info("%s cannot encode %dx%d pixels (%s); using libx264", codec, width, height, cause)
    return not cause


def _fault(command: list[str], frames: bytes) -> str:
    """Run ffmpeg with raw frames as input, and return why it failed, or "" if it did not."""
    done = subprocess.run(command, input=frames, capture_output=True, check=False)
    return _cause(done.returncode, done.stderr) if done.returncode else ""


def _cause(code: int, log: bytes) -> str:
    """Return the first line of ffmpeg's log, the cause of an error, without the component name, or
    its exit code if the log is empty."""
    lines = log.decode(errors="replace").strip().splitlines() or [f"exit code {code}"]
    return re.sub(r"^\[[^]]*\] ", "", lines[0])


def encoder(codec: str) -> str:
    """Return the path of ffmpeg, which must support the encoder `codec`."""
    program = ffmpeg()
    if f" {codec} " not in ask_ffmpeg(program, "-encoders"):
        raise InputError(
            f"{program} has no encoder {codec}; set IMAGEIO_FFMPEG_EXE to an ffmpeg that has one"
        )
    return program


def _alpha_options(program: str) -> tuple[str, ...]:
    """Return the ffmpeg options for images with premultiplied alpha. By default, newer versions of
    ffmpeg, such as 9.0, multiply the colors of EXR files by alpha. Older versions, such as 7.0, do
    not multiply the colors and do not have the option."""
    if "alpha_mode" not in ask_ffmpeg(program, "-h", "filter=setparams"):
        return ()
    return "-vf", "setparams=alpha_mode=premultiplied"


def _file_url(path: Path) -> str:
    """Return a path with the prefix `file:`. Without it, ffmpeg interprets a colon as the
    end of a protocol and a leading minus as an option."""
    return f"file:{path}"


def _check_frame(frame: np.ndarray, index: int, shape: tuple[int, ...]) -> None:
    if not isinstance(frame, np.ndarray) or frame.dtype != np.uint8:
        kind = getattr(frame, "dtype", type(frame).__name__)
        raise InputError(f"frame {index} has type {kind}; expected a NumPy array of uint8")
    if frame.ndim != 3 or frame.shape[2] != 3:
        raise InputError(f"frame {index} has shape {frame.shape}; expected (height, width, 3)")
    if frame.shape != shape:
        raise InputError(f"frame {index} has shape {frame.shape}, but frame 0 has {shape}")


def _options(extension: str, codec: str, width: int, height: int, fps: float) -> list[str]:
    """Return ffmpeg's options for converting raw RGB frames to a video, without the output file."""
    source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", str(fps)]
    common = ["-y", "-v", "error", *source, "-i", "-"]
    if extension == ".gif":
        palette = "split[a][b];[a]palettegen=stats_mode=single[p];[b][p]paletteuse=new=1"
        return [*common, "-filter_complex", palette]
    matrix = "scale=out_color_matrix=bt709:out_range=tv"
    label = "setparams=color_primaries=bt709:color_trc=iec61966-2-1"  # sRGB's
    common += ["-vf", f"{matrix},{label}", "-pix_fmt", "yuv420p", "-c:v", codec]
    if extension == ".webm":
        return [*common, "-crf", str(WEBM_QUALITY), "-b:v", "0", "-row-mt", "1"]
    quality = ["-crf", str(QUALITY), "-preset", "medium"]
    if codec == HARDWARE[extension]:
        quality = ["-q:v", str(HARDWARE_QUALITY), "-allow_sw", "1"]  # In software if it is busy.
    return [*common, *quality, "-movflags", "+faststart"]


@contextmanager
def _encoder(path: Path, width: int, height: int, fps: float) -> Iterator[Send]:
    """Context manager that starts ffmpeg and yields a function `send(frame)`. On exit, the file is
    complete. An exception stops ffmpeg."""
    program, codec = _encoder_for(path, width, height, fps)
    options = _options(path.suffix.lower(), codec, width, height, fps)
    command = [program, *options, _file_url(path)]
    with (
        tempfile.TemporaryFile() as log,
        child_process(command, stdin=subprocess.PIPE, stdout=log, stderr=log) as process,
    ):

        def send(frame: np.ndarray) -> None:
            with suppress(BrokenPipeError):
                process.stdin.write(np.ascontiguousarray(frame).data)
                return
            finish()  # ffmpeg has stopped, and its exit code and log contain the cause.

        def finish() -> None:
            process.communicate()
            if process.returncode != 0:
                log.seek(0)
                _failed.add(codec)
                cause = _cause(process.returncode, log.read())
                message = f"cannot write the video; ffmpeg reports: {cause}"
                raise (HardwareError if codec in HARDWARE.values() else InputError)(message)

        yield send
        finish()


FAST = 1  # zlib compression level of frames that are stored until their video is complete.
EXR_LAYOUTS = {1: ([0], "grayf32le"), 3: ([1, 2, 0], "gbrpf32le"), 4: ([1, 2, 0, 3], "gbrapf32le")}
"""Order of the channels in ffmpeg's planes and ffmpeg's pixel format, keyed by the number of
channels."""


def save_png(path: Path, frame: np.ndarray, effort: int = 6) -> None:
    """Write a uint8 image (h, w, 3), or (h, w, 4) with alpha, with a zlib compression level."""
    with appearing(path) as partial:
        Image.fromarray(frame).save(partial, compress_level=effort)


def read_png(path: Path) -> np.ndarray:
    """Read an image that `save_png` has written."""
    with opened(path, ("PNG",)) as image:
        return np.asarray(image)


def save_exr(path: Path, options: RenderOptions, frame: FrameValues) -> None:
    """Write the values of a frame to an OpenEXR file."""
    values, opacity = frame.values, frame.opacity[..., None]
    if options.output == "rgb":
        values = _linear(values)
        if options.background_color is None:
            values = np.concatenate([values * opacity, opacity], axis=2)
    height, width = values.shape[:2]
    values = values.reshape(height, width, -1)
    order, layout = EXR_LAYOUTS[values.shape[2]]
    planes = values[..., order].transpose(2, 0, 1)
    source = ["-f", "rawvideo", "-pix_fmt", layout, "-s", f"{width}x{height}", "-i", "-"]
    codec = ["-c:v", "exr", "-format", "float", "-compression", "zip16", "-pix_fmt", layout]
    program = encoder("exr")
    alpha = _alpha_options(program) if values.shape[2] == 4 else ()
    with appearing(path) as partial:
        command = [program, "-y", "-v", "error", *source, *alpha, *codec, _file_url(partial)]
        if cause := _fault(command, planes.astype("<f4").tobytes()):
            raise InputError(f"cannot write {path}; ffmpeg reports: {cause}")


def _linear(values: np.ndarray) -> np.ndarray:
    """Convert sRGB to linear light in host memory, as `geometry.color.srgb_to_linear`."""
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


STEREO_MODES = {None: 0, "over-under": 1, "side-by-side": 2}  # stereo_mode in the box st3d.
SAMPLE_ENTRY = {"moov": 8, "trak": 8, "mdia": 8, "minf": 8, "stbl": 8, "stsd": 16, "avc1": 86}
"""Number of bytes before the first inner box of each nested box, down to the H.264 sample entry.

ISO/IEC 14496-12, sections 8 and 12.1.3.
"""
CHUNK_OFFSETS = {"stco": "I", "co64": "Q"}  # Boxes with offsets of images, and their type.


def mark_spatial(path: Path, projection: str, stereo: str | None) -> None:
    """Add 360 degree and stereo metadata to an MP4 file, unless it is a perspective video for one
    eye. The arguments are values of `RenderOptions`."""
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


def _with_boxes(box: bytes, boxes: bytes) -> bytes:
    """Add `boxes` to the sample entry in an MP4 box, such as the index (moov), and increase chunk
    offsets by the length of `boxes`."""
    kind = _header(box, 0)[1]
    if kind in CHUNK_OFFSETS:
        (count,) = struct.unpack_from(">I", box, 12)
        layout = f">{count}{CHUNK_OFFSETS[kind]}"
        moved = (offset + len(boxes) for offset in struct.unpack_from(layout, box, 16))
        return box[:16] + struct.pack(layout, *moved)
    if kind not in SAMPLE_ENTRY:
        return box
    at = SAMPLE_ENTRY[kind]
    parts = [box[8:at]]
    while at < len(box):
        inner = box[at : at + _header(box, at)[0]]
        parts.append(_with_boxes(inner, boxes))
        at += len(inner)
    if kind == "avc1":
        # The first inner box, avcC, is required for decoding. Optional boxes follow.
        parts.insert(2, boxes)
    return _box(kind, b"".join(parts))


def _header(data: bytes, offset: int) -> tuple[int, str]:
    """Return the size in bytes and the name of the box at `offset`."""
    size, name = struct.unpack_from(">I4s", data, offset)
    return size, name.decode("latin-1")


def _box(name: str, content: bytes) -> bytes:
    return struct.pack(">I4s", 8 + len(content), name.encode()) + content


def _full_box(name: str, content: bytes) -> bytes:
    """Return an MP4 box with the version and flags set to zero."""
    return _box(name, bytes(4) + content)
