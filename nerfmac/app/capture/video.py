"""Decoding of video frames with the ffmpeg of `imageio-ffmpeg`, and selection of sharp frames, with
fewer frames where the camera moves slowly.

ffmpeg applies the rotation that the video file specifies. Sharpness is the variance of the
Laplacian (Pech-Pacheco et al. 2000). Motion is the median shift of image blocks (phase correlation,
Kuglin and Hines 1975) relative to a reference frame, which is replaced when the shift reaches
several pixels, because smaller shifts would be rounded to zero.
"""

import math
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nerfmac.common import Float32Array, Float64Array, InputError, UInt8Array, log, pip_install

EXTENSIONS = (".mp4", ".mov", ".m4v", ".avi", ".mkv", ".webm", ".3gp", ".mpg", ".mpeg", ".mts")
"""File extensions of videos in lower case."""
GRAY_SIZE = 640  # Longer side, in pixels, of gray frames. A blur of a few pixels is still visible.
MAX_COMPARED = 4000
"""Maximum number of measured frames. In longer videos, every nth frame is measured."""
CUT = ("partial file", "corrupt input packet", "ended prematurely")
"""Phrases in messages of ffmpeg that indicate a truncated file."""
NO_INDEX = "moov atom not found"
HDR = {"arib-std-b67": "HLG", "smpte2084": "PQ"}
"""Common names of the transfer functions of HDR videos, keyed by their ffmpeg names."""
WIDE = {"bt2020": "BT.2020", "smpte432": "Display P3", "smpte431": "DCI-P3"}
"""Common names of the wide-gamut color primaries of videos, keyed by their ffmpeg names."""
INTERLACED = re.compile(r"\b(top|bottom) (coded )?first\b")
"""ffmpeg's description of a video whose frames consist of two fields, recorded one after the
other."""
WHITE = 203  # Luminance in cd/m2 that is mapped to white, the HDR reference white of ITU-R BT.2408.


class Video(NamedTuple):
    """Video file with its properties."""

    path: Path
    stream: str  # ffmpeg's description of the video stream.
    frames: int  # Number of frames that can be decoded.
    seconds: float  # Duration of these frames in seconds.
    says: float  # Duration in seconds according to the header, possibly of the audio.
    is_cut: bool  # Whether the file is truncated.

    @property
    def step(self) -> int:
        """Interval between measured frames, of which there are at most `MAX_COMPARED`."""
        return max(1, -(-self.frames // MAX_COMPARED))


def is_video(path: Path) -> bool:
    """Return whether `path` is a file with a video file extension."""
    return path.suffix.lower() in EXTENSIONS and path.is_file()


def open_video(path: Path) -> Video:
    """Read the frame count, the duration, and other properties of a video file."""
    # Without `file:`, ffmpeg interprets the text before a colon as a protocol.
    command = [ffmpeg(), "-hide_banner", "-i", f"file:{path}", "-map", "0:v:0", "-c", "copy"]
    command += ["-f", "null", "-"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    messages = done.stderr.decode(errors="replace")
    counted = re.findall(r"frame=\s*(\d+)", messages)
    if done.returncode != 0 or not counted or int(counted[-1]) == 0:
        raise _unreadable(path, messages)
    stream = next(line for line in messages.splitlines() if "Video:" in line)
    seconds, says = _seconds("time=", messages), _seconds("Duration:", messages)
    is_cut = any(message in messages for message in CUT)
    return Video(path, stream, int(counted[-1]), seconds, says, is_cut)


def gray_frames(video: Video) -> Iterator[UInt8Array]:
    """Yield the frames 0, n, 2 n, and so on of a video as gray images, uint8 (h, w), where n is
    `video.step`. The longer side of the images has at most `GRAY_SIZE` pixels."""
    chosen = f"select='not(mod(n,{video.step}))'," if video.step > 1 else ""
    selection = _deinterlaced(video.stream) + chosen + _within(GRAY_SIZE)
    return _frames(video.path, selection + ":flags=area", "gray", "pgm")


def full_frames(video: Video, numbers: Sequence[int], longest: int) -> Iterator[UInt8Array]:
    """Yield frames of a video, uint8 (h, w, 3). Frames of an HDR or wide-gamut video are converted
    to sRGB. `numbers` is in ascending order, and `longest` is the maximum length of the longer side
    in pixels."""
    colors = _tone_map(video.stream)
    selection = f"select='{_any_of(numbers)}',{_within(longest)}:flags=area{colors}"
    return _frames(video.path, _deinterlaced(video.stream) + selection, "rgb24", "ppm")


def report_conversions(video: Video) -> None:
    """Log that interlaced frames are deinterlaced, how anamorphic frames are scaled, and how the
    colors of an HDR or wide-gamut video are converted to sRGB, or that they cannot be."""
    path, stream = video.path, video.stream
    if _deinterlaced(stream):
        log.info(f"{path} is interlaced; deinterlacing its frames")
    ratio = re.search(r"SAR (\d+:\d+)", stream)
    if ratio and ratio[1] not in ("1:1", "0:1"):
        log.info(f"{path} has pixels of {ratio[1]}; scaling its frames to square pixels")
    transfer, primaries = _colors(stream)
    kind = f"an HDR video ({HDR[transfer]})" if transfer else ""
    kind = kind or (f"a wide-gamut video ({WIDE[primaries]})" if primaries else "")
    if kind and _has_filters():
        what = "tone-mapping" if transfer else "converting"
        log.info(f"{path} is {kind}; {what} its frames to sRGB")
    elif kind:
        log.warning(
            f"{path} is {kind}, but this ffmpeg has no filters zscale and "
            "tonemap, so the images will be pale; unset IMAGEIO_FFMPEG_EXE to use the bundled one"
        )


def _deinterlaced(stream: str) -> str:
    """Return the ffmpeg filter that deinterlaces an interlaced video, before a comma; otherwise "".
    The number of frames does not change."""
    return "bwdif=send_frame," if INTERLACED.search(stream) else ""


def _tone_map(stream: str) -> str:
    """Return the ffmpeg filters that map HDR or wide-gamut colors to sRGB, after a comma; otherwise
    ""."""
    transfer, primaries = _colors(stream)
    if not (transfer or primaries) or not _has_filters():
        return ""
    if not transfer:
        return f",zscale=tin=bt709:t=bt709:pin={primaries}:p=bt709:m=gbr:r=full,format=gbrp"
    to_linear = f"zscale=tin={transfer}:pin=bt2020:min=2020_ncl:t=linear:npl={WHITE}"
    to_srgb = "zscale=t=iec61966-2-1:m=gbr:r=full,format=gbrp"
    tone_map = "tonemap=tonemap=mobius:param=0.6:desat=0"
    return f",{to_linear},format=gbrpf32le,zscale=p=bt709,{tone_map},{to_srgb}"


def _colors(stream: str) -> tuple[str, str]:
    """Return the ffmpeg names of the transfer function of an HDR video, and of the color primaries
    of a wide-gamut video; otherwise ""."""
    found = re.search(r"\((?:tv|pc), [\w-]+/([\w-]+)/", stream)
    transfer = next((name for name in HDR if name in stream), "")
    return transfer, found[1] if found and found[1] in WIDE else ""


def _has_filters() -> bool:
    filters = ask_ffmpeg(ffmpeg(), "-filters")
    return all(f" {name} " in filters for name in ("zscale", "tonemap"))


def _any_of(numbers: Sequence[int]) -> str:
    """Return the ffmpeg expression that selects frames with these numbers, as a balanced tree.
    ffmpeg parses a sum of n terms with n levels of nesting, and ffmpeg 9 and later reject more than
    100 levels."""
    if len(numbers) == 1:
        return f"eq(n,{numbers[0]})"
    middle = len(numbers) // 2
    return f"({_any_of(numbers[:middle])}+{_any_of(numbers[middle:])})"


def _within(longest: int) -> str:
    """Return the ffmpeg filters that scale anamorphic frames to square pixels, and then fit frames
    into a square with the side length `longest`."""
    square = "scale='trunc(iw*max(sar,1)/2)*2':'trunc(ih*max(1/sar,1)/2)*2',setsar=1,"
    fitting = f"scale='min({longest},iw)':'min({longest},ih)'"
    return square + fitting + ":force_original_aspect_ratio=decrease:force_divisible_by=2"


def _frames(path: Path, selection: str, layout: str, form: str) -> Iterator[UInt8Array]:
    command = [ffmpeg(), "-v", "error", "-i", f"file:{path}", "-an", "-vf", selection]
    # Without passthrough, ffmpeg would repeat frames at times where the phone dropped frames.
    command += ["-fps_mode", "passthrough", "-pix_fmt", layout, "-c:v", form]
    command += ["-f", "image2pipe", "-"]
    count, pipe = 0, subprocess.PIPE
    with tempfile.TemporaryFile() as errors:
        streams = {"stdin": subprocess.DEVNULL, "stdout": pipe, "stderr": errors}
        with child_process(command, **streams) as process:
            stream = process.stdout
            while stream.readline():
                width, height = map(int, stream.readline().split())
                stream.readline()
                shape = (height, width) if layout == "gray" else (height, width, 3)
                content = stream.read(math.prod(shape))
                if len(content) < math.prod(shape):
                    break
                count += 1
                yield np.frombuffer(content, np.uint8).reshape(shape)
            process.wait()
        errors.seek(0)
        if not count:
            raise _unreadable(path, errors.read().decode(errors="replace"))


@contextmanager
def child_process(command: Sequence[str], **options: Any) -> Iterator[Any]:
    """Context manager that starts a process, a `subprocess.Popen`, and ends it on exit. The process
    has a group of its own, so that only this process receives Ctrl-C."""
    process = subprocess.Popen(command, process_group=0, **options)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def ffmpeg() -> str:
    """Return the path of ffmpeg."""
    with suppress(ImportError, RuntimeError):
        import imageio_ffmpeg  # Imported lazily: only videos require it.

        if program := shutil.which(imageio_ffmpeg.get_ffmpeg_exe()):
            return program
    raise InputError(
        f"ffmpeg not found; install it with {pip_install('imageio-ffmpeg')}, or set "
        "IMAGEIO_FFMPEG_EXE to its path"
    )


@cache
def ask_ffmpeg(program: str, *question: str) -> str:
    """Return the output of ffmpeg for the options `question`."""
    command = [program, "-v", "error", *question]
    done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, check=False)
    return done.stdout.decode(errors="replace")


def _seconds(label: str, messages: str) -> float:
    """Return the last time, in seconds, that follows `label` in ffmpeg's messages, or 0."""
    times = re.findall(rf"{label}\s*(\d+):(\d+):([\d.]+)", messages)
    if not times:
        return 0.0
    hours, minutes, seconds = map(float, times[-1])
    return 3600 * hours + 60 * minutes + seconds


def _unreadable(path: Path, messages: str) -> InputError:
    if NO_INDEX in messages:
        why = "it has no index, so the file is truncated or the recording was never finished"
    else:
        lines = [re.sub(r"^\[.*?\] ", "", line).strip() for line in messages.splitlines()]
        lines = [line for line in lines if line and "frame=" not in line]
        why = lines[-1] if lines else "it is empty"
    return InputError(f"cannot read {path} as a video: {why}")


BLOCK = 64  # Side of a block in pixels, in a frame of half the size.
MIN_CONTRAST = 3.0  # Minimum standard deviation of the gray values (0 to 255) of a measured block.
FAR = 4.0  # Shift, in pixels at half size, at which the current frame becomes the reference frame.
SPACING = 0.06  # Motion of the image between selected frames, relative to its longer side.
MIN_STRETCHES, MAX_STRETCHES = 50, 200
"""Default range of the number of stretches, which are sections with a given amount of motion."""
NEAR = 0.7  # Central fraction of a stretch, which is searched first for the sharpest frame.
BLURRED = 0.35
"""Sharpness of a blurred frame, relative to the median of neighboring selected frames."""
NEIGHBORS = 9  # Number of neighboring selected frames for which the median sharpness is computed.


class FrameMeasures(NamedTuple):
    """Sharpness, motion, and contrast of each video frame, as arrays (n,)."""

    sharpness: Float64Array  # Variance of the Laplacian.
    traveled: Float64Array  # Motion since the first frame, relative to the longer side.
    contrast: Float64Array  # Standard deviation of gray values (0 to 255).


class _Blocks(NamedTuple):
    spectra: npt.NDArray[np.complex64]
    contrast: Float32Array


def measure_frames(frames: Iterable[UInt8Array]) -> FrameMeasures:
    """Measure the sharpness, motion, and contrast of gray frames of the same size, uint8 (h, w)."""
    sharpness, traveled, contrast = [], [], []
    reference: _Blocks | None = None
    before, longest = 0.0, 1
    for frame in frames:
        values = frame.astype(np.float32)
        blocks = _blocks(values)
        if reference is None:
            reference, longest = blocks, max(frame.shape)
        shift = _shift(reference, blocks)
        traveled.append((before + 2.0 * shift) / longest)
        if shift >= FAR:
            reference, before = blocks, before + 2.0 * shift
        sharpness.append(laplacian_variance(values))
        contrast.append(float(values.std()))
    motion = np.maximum.accumulate(traveled or [0.0])
    return FrameMeasures(np.array(sharpness), motion, np.array(contrast))


def laplacian_variance(image: Float32Array) -> float:
    """Return the variance of the Laplacian of a gray image (h, w), or 0 if a side is below 3."""
    if min(image.shape) < 3:
        return 0.0
    inner = 4.0 * image[1:-1, 1:-1]
    inner -= image[:-2, 1:-1] + image[2:, 1:-1] + image[1:-1, :-2] + image[1:-1, 2:]
    return float(inner.var())


def select_frames(frames: FrameMeasures, count: int | None = None) -> list[int]:
    """Select sharp frames of a video, and return their numbers in ascending order.

    The video is divided into stretches with equal motion, and the sharpest frame near the middle of
    each stretch is selected. Selected frames that are blurred compared with neighboring selected
    frames are dropped, and their number is logged. `count` is the maximum number of frames. By
    default, it depends on the motion.
    """
    total, motion = len(frames.sharpness), frames.traveled[-1]
    stretches = count or int(np.clip(round(motion / SPACING), MIN_STRETCHES, MAX_STRETCHES))
    if stretches >= total:
        return _sharp(frames, list(range(total)))
    # Without any motion, the frames are divided into stretches of equal duration.
    progress = frames.traveled / motion if motion > 0 else np.arange(total) / max(total - 1, 1)
    position = progress * stretches
    stretch = np.minimum(position.astype(int), stretches - 1)
    chosen = []
    for number in range(stretches):
        inside = np.flatnonzero(stretch == number)
        central = inside[np.abs(position[inside] - number - 0.5) <= NEAR / 2]
        candidates = central if len(central) else inside
        if len(candidates):
            chosen.append(int(candidates[frames.sharpness[candidates].argmax()]))
    kept = _sharp(frames, chosen)
    if len(kept) < len(chosen):
        log.info("dropped %d blurred stretches of the video", len(chosen) - len(kept))
    return kept


def _sharp(frames: FrameMeasures, chosen: list[int]) -> list[int]:
    """Return the frames in `chosen` that are sharp compared with neighboring frames in `chosen`."""
    sharpness = frames.sharpness[chosen]
    kept = []
    for index, number in enumerate(chosen):
        first = min(max(index - NEIGHBORS // 2, 0), max(len(chosen) - NEIGHBORS, 0))
        if sharpness[index] >= BLURRED * np.median(sharpness[first : first + NEIGHBORS]):
            kept.append(number)
    return kept


def _blocks(frame: Float32Array) -> _Blocks:
    """Return the spectra and contrasts of blocks that are spread over the frame at half size."""
    height, width = (side // 2 for side in frame.shape)
    half = frame[: 2 * height, : 2 * width].reshape(height, 2, width, 2).mean(axis=(1, 3))
    size = min(BLOCK, height, width)
    tops, lefts = (
        np.linspace(0, side - size, max(side // size, 1)).astype(int) for side in (height, width)
    )
    cut = np.stack([half[y : y + size, x : x + size] for y in tops for x in lefts])
    cut -= cut.mean(axis=(1, 2), keepdims=True)
    window = np.outer(np.hanning(size), np.hanning(size)).astype(np.float32)
    return _Blocks(np.fft.rfft2(cut * window).astype(np.complex64), cut.std(axis=(1, 2)))


def _shift(one: _Blocks, other: _Blocks) -> float:
    """Return the median shift in pixels between the blocks of two frames at half size."""
    seen = (one.contrast > MIN_CONTRAST) & (other.contrast > MIN_CONTRAST)
    if not seen.any():
        return 0.0
    cross = one.spectra[seen] * other.spectra[seen].conj()
    # Frequencies with a small amplitude are damped, because their phase is noise.
    strength = np.abs(cross)
    cross /= strength + 1e-3 * strength.max(axis=(1, 2), keepdims=True) + 1e-12
    peaks = np.fft.irfft2(cross)
    size = peaks.shape[1]
    shifts = np.divmod(peaks.reshape(len(peaks), -1).argmax(axis=1), size)
    rows, columns = ((shift + size // 2) % size - size // 2 for shift in shifts)
    return float(np.median(np.hypot(rows, columns)))
