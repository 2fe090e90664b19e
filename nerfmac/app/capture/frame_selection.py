"""Selection of a video's frames: sharp ones, and few where the camera moves little.

Sharpness is the variance of the Laplacian (Pech-Pacheco et al. 2000). Motion is the median over
blocks of the shift by phase correlation (Kuglin and Hines 1975), so a few blocks on people, cars or
blank walls do not count. It is measured from an earlier frame until the shift reaches several
pixels: otherwise rounding would lose the slow motion of a high frame rate.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

BLOCK = 64
"""Side of a block in pixels, in a frame of half the size."""
LEAST_CONTRAST = 3.0
"""Smallest standard deviation of gray values (0 to 255) in a block whose shift can be measured."""
FAR = 4.0
"""Shift, in pixels of the halved frame, from which a frame becomes the new reference frame."""
SPACING = 0.06
"""Motion of the image from one selected frame to the next, as a fraction of its longer side."""
FEWEST, MOST = 50, 200
"""Smallest and largest number of stretches if the user names none; each gives at most one frame."""
NEAR = 0.7
"""Fraction of a stretch, around its middle, where its sharpest frame is sought first."""
BLURRED = 0.35
"""Fraction of the neighbors' median sharpness below which a frame is blurred."""
NEIGHBORS = 9
"""Number of selected frames over which the median of `BLURRED` is taken."""

log = logging.getLogger("nerfmac")


class FrameMeasures(NamedTuple):
    """Measures (n,) of a video's frames."""

    sharpness: npt.NDArray[np.float64]  # variance of the Laplacian
    traveled: npt.NDArray[np.float64]  # motion since the first frame / longer side
    contrast: npt.NDArray[np.float64]  # standard deviation of gray values (0 to 255)


class _Blocks(NamedTuple):
    spectra: npt.NDArray[np.complex64]
    contrast: Floats


def measure_frames(frames: Iterable[npt.NDArray[np.uint8]]) -> FrameMeasures:
    """Measure gray `frames`, uint8 (h, w) of one size; there may be none."""
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
    """Variance of the Laplacian of a gray image (h, w); 0 if a side is below 3 pixels."""
    if min(image.shape) < 3:
        return 0.0
    inner = 4.0 * image[1:-1, 1:-1]
    inner -= image[:-2, 1:-1] + image[2:, 1:-1] + image[1:-1, :-2] + image[1:-1, 2:]
    return float(inner.var())


def select_frames(frames: FrameMeasures, count: int | None = None) -> list[int]:
    """Ascending numbers of the frames to use, at most `count` if that is not None.

    The motion is divided into equal stretches, so that a camera at rest gives one frame and a fast
    one many. Each stretch gives the sharpest frame near its middle. Frames blurred in comparison
    with the other selected ones are left out, with a line in the log.
    """
    total, motion = len(frames.sharpness), frames.traveled[-1]
    stretches = count or int(np.clip(round(motion / SPACING), FEWEST, MOST))
    if stretches >= total:
        return _sharp(frames, list(range(total)))
    # Without any motion, time divides the frames.
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
        log.info("%d stretches of the video are blurred and left out", len(chosen) - len(kept))
    return kept


def _sharp(frames: FrameMeasures, chosen: list[int]) -> list[int]:
    """The `chosen` frames that are not blurred in comparison with their chosen neighbors."""
    sharpness = frames.sharpness[chosen]
    kept = []
    for index, number in enumerate(chosen):
        first = min(max(index - NEIGHBORS // 2, 0), max(len(chosen) - NEIGHBORS, 0))
        if sharpness[index] >= BLURRED * np.median(sharpness[first : first + NEIGHBORS]):
            kept.append(number)
    return kept


def _blocks(frame: Floats) -> _Blocks:
    """Spectra and contrasts of blocks all over the frame, which is halved first."""
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
    """Median shift in pixels between the blocks of two halved frames."""
    seen = (one.contrast > LEAST_CONTRAST) & (other.contrast > LEAST_CONTRAST)
    if not seen.any():
        return 0.0
    cross = one.spectra[seen] * other.spectra[seen].conj()
    # Weak frequencies are damped: their phase is noise.
    strength = np.abs(cross)
    cross /= strength + 1e-3 * strength.max(axis=(1, 2), keepdims=True) + 1e-12
    peaks = np.fft.irfft2(cross)
    size = peaks.shape[1]
    shifts = np.divmod(peaks.reshape(len(peaks), -1).argmax(axis=1), size)
    rows, columns = ((shift + size // 2) % size - size // 2 for shift in shifts)
    return float(np.median(np.hypot(rows, columns)))
