"""How sharp each frame of a video is, and how far the picture has moved since the first.

Sharpness is the variance of the Laplacian (Pech-Pacheco et al. 2000). Motion is the median over
blocks of the shift that phase correlation finds (Kuglin and Hines 1975): a few blocks on people or
cars, or on a blank wall, do not count. It is measured from a frame further back, until it has grown
to several pixels, so that the slow motion of a fast camera is not lost in rounding.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Grey = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]

BLOCK = 64
"""Pixels of a block's side, in a frame of half the size."""
LEAST_CONTRAST = 3.0
"""Standard deviation, of 255, from which on a block's shift can be told."""
FAR = 4.0
"""Pixels of shift, in a frame of half the size, after which it is measured from a later frame."""


class Frames(NamedTuple):
    """Of each frame: sharpness, motion since the first in longer sides, standard deviation."""

    sharpness: npt.NDArray[np.float64]
    travelled: npt.NDArray[np.float64]
    contrast: npt.NDArray[np.float64]


class _Blocks(NamedTuple):
    spectra: npt.NDArray[np.complex64]
    contrast: Floats


def measure(frames: Iterable[Grey]) -> Frames:
    """Measure `frames`, uint8 (h, w) of one size; there may be none."""
    sharpness, travelled, contrast = [], [], []
    reference: _Blocks | None = None
    before, longest = 0.0, 1
    for frame in frames:
        values = frame.astype(np.float32)
        blocks = _blocks(values)
        if reference is None:
            reference, longest = blocks, max(frame.shape)
        shift = _shift(reference, blocks)
        travelled.append((before + 2.0 * shift) / longest)
        if shift >= FAR:
            reference, before = blocks, before + 2.0 * shift
        sharpness.append(laplacian_variance(values))
        contrast.append(float(values.std()))
    return Frames(
        np.array(sharpness), np.maximum.accumulate(travelled or [0.0]), np.array(contrast)
    )


def laplacian_variance(picture: Floats) -> float:
    """The variance of the Laplacian of a grey picture (h, w), each side at least 3 pixels."""
    inner = 4.0 * picture[1:-1, 1:-1]
    inner -= picture[:-2, 1:-1] + picture[2:, 1:-1] + picture[1:-1, :-2] + picture[1:-1, 2:]
    return float(inner.var())


def _blocks(frame: Floats) -> _Blocks:
    """The spectra of blocks all over the frame, which is halved first."""
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
    """The median shift between two frames' blocks, in pixels of the halved frames."""
    seen = (one.contrast > LEAST_CONTRAST) & (other.contrast > LEAST_CONTRAST)
    if not seen.any():
        return 0.0
    cross = one.spectra[seen] * other.spectra[seen].conj()
    # Frequencies that hardly occur have a phase of noise alone.
    strength = np.abs(cross)
    cross /= strength + 1e-3 * strength.max(axis=(1, 2), keepdims=True) + 1e-12
    peaks = np.fft.irfft2(cross)
    size = peaks.shape[1]
    rows, columns = np.divmod(peaks.reshape(len(peaks), -1).argmax(axis=1), size)
    rows, columns = ((each + size // 2) % size - size // 2 for each in (rows, columns))
    return float(np.median(np.hypot(rows, columns)))
