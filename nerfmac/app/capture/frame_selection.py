"""Selection of sharp video frames, with fewer frames where the camera moves slowly. Sharpness is
the variance of the Laplacian (Pech-Pacheco et al. 2000). Motion is the median shift of image blocks
(phase correlation, Kuglin and Hines 1975) relative to a reference frame, which is replaced when the
shift reaches several pixels, because smaller shifts would be rounded to zero."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

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

log = logging.getLogger("nerfmac")


class FrameMeasures(NamedTuple):
    """Sharpness, motion, and contrast of each video frame, as arrays (n,)."""

    sharpness: npt.NDArray[np.float64]  # Variance of the Laplacian.
    traveled: npt.NDArray[np.float64]  # Motion since the first frame, relative to the longer side.
    contrast: npt.NDArray[np.float64]  # Standard deviation of gray values (0 to 255).


class _Blocks(NamedTuple):
    spectra: npt.NDArray[np.complex64]
    contrast: Floats


def measure_frames(frames: Iterable[npt.NDArray[np.uint8]]) -> FrameMeasures:
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


def laplacian_variance(image: Floats) -> float:
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


def _blocks(frame: Floats) -> _Blocks:
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
