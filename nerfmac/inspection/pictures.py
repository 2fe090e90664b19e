"""Which pictures of a scene are blurred, badly exposed, or the same as another."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image

from nerfmac.capture.motion import laplacian_variance
from nerfmac.inspection.findings import summed_up
from nerfmac.scenes import Frame
from nerfmac.scenes.picture_cache import decode_once

SIZE = 640
"""The longer side at which pictures are compared, so that their resolution does not count."""
THUMBNAIL = (32, 32)
BLURRED = 0.2
"""A picture is blurred if it has less than this part of the median sharpness of all."""
ALIKE = 1.0
"""Two pictures are the same if their thumbnails differ by less in the mean, of 255."""
DARK, BRIGHT = 25.0, 235.0
"""Mean brightness, of 255, outside which a picture is too dark or too bright."""
CLIPPED = 0.35
"""The part of a picture that may be quite white or quite black."""
UNLIKE = 45.0
"""How far a picture's mean brightness may be from the median of all, of 255."""


class Look(NamedTuple):
    """What is measured of a picture: sharpness, brightness, and parts that are clipped."""

    sharpness: float
    brightness: float
    white: float
    black: float
    thumbnail: npt.NDArray[np.float32]


def look_at(frames: Sequence[Frame], bar: Any) -> list[Look]:
    """Measure each frame's picture; `bar` counts them. Raises InputError if one is broken."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        looks = []
        for look in pool.map(_look, frames):
            looks.append(look)
            bar.update()
        return looks


def _look(frame: Frame) -> Look:
    pixels = decode_once(frame.picture, 4, frame.name, frame.reduce, upright=frame.is_upright)
    over_white = Image.new("RGBA", pixels.shape[1::-1], "white")
    over_white.alpha_composite(Image.fromarray(pixels))
    image = over_white.convert("L")
    image.thumbnail((SIZE, SIZE), Image.Resampling.BOX)
    grey = np.asarray(image, np.float32)
    shown = grey
    if pixels[..., 3].min() < 255:  # what is cut out of white says nothing of the exposure
        alpha = Image.fromarray(pixels[..., 3]).resize(image.size, Image.Resampling.BOX)
        inside = grey[np.asarray(alpha) > 250]
        shown = inside if len(inside) else grey
    small = np.asarray(image.resize(THUMBNAIL, Image.Resampling.BOX), np.float32)
    white, black = float((shown >= 254).mean()), float((shown <= 1).mean())
    sharpness = laplacian_variance(grey) if min(grey.shape) >= 3 else 0.0
    return Look(sharpness, float(shown.mean()), white, black, small)


def normalised(thumbnails: Sequence[npt.NDArray[np.floating]]) -> npt.NDArray[np.float64]:
    """The thumbnails as rows (n, pixels) of mean 0 and length 1: products are correlations."""
    small = np.stack([each.ravel() for each in thumbnails]).astype(np.float64)
    small -= small.mean(axis=1, keepdims=True)
    return small / np.maximum(np.linalg.norm(small, axis=1, keepdims=True), 1e-9)


def picture_findings(names: Sequence[str], looks: Sequence[Look]) -> list[str]:
    """Which pictures are blurred, badly exposed or the same as an earlier one, in lines."""
    usual = float(np.median([look.sharpness for look in looks]))
    blurred = [
        f"{name} is blurred: {look.sharpness / usual:.0%} of the usual sharpness"
        for name, look in zip(names, looks, strict=True)
        if look.sharpness < BLURRED * usual
    ]
    found = summed_up(blurred, "are blurred")
    found += summed_up(_exposures(names, looks), "are badly exposed")
    return found + summed_up(_duplicates(names, looks), "show the same as an earlier one")


def _exposures(names: Sequence[str], looks: Sequence[Look]) -> list[str]:
    """A line for each picture that is badly exposed; a backdrop that most have does not count."""
    white, black, usual = np.median(
        [(each.white, each.black, each.brightness) for each in looks], 0
    )
    backdrop = float(white * (white > CLIPPED)), float(black * (black > CLIPPED))
    told = [_exposure(look, backdrop, float(usual)) for look in looks]
    return [f"{name} is {what}" for name, what in zip(names, told, strict=True) if what]


def _exposure(look: Look, backdrop: tuple[float, float], usual: float) -> str:
    """What is wrong with a picture's exposure, in words; nothing if it is well exposed.

    `backdrop` are the parts of most pictures that are white and black.
    """
    white, black = min(look.white, backdrop[0]), min(look.black, backdrop[1])
    inside = (look.brightness - 255.0 * white) / max(1.0 - white - black, 0.01)
    if inside < DARK:
        return f"too dark: {inside:.0f} of 255 in the mean"
    if inside > BRIGHT:
        return f"too bright: {inside:.0f} of 255 in the mean"
    if look.white - white > CLIPPED:
        return f"overexposed: {look.white:.0%} of it is white"
    if look.black - black > CLIPPED:
        return f"underexposed: {look.black:.0%} of it is black"
    if abs(look.brightness - usual) > UNLIKE:
        than = "brighter" if look.brightness > usual else "darker"
        return f"{than} than the others: {look.brightness:.0f} of 255 in the mean, not {usual:.0f}"
    return ""


def _duplicates(names: Sequence[str], looks: Sequence[Look]) -> list[str]:
    small = np.stack([look.thumbnail.ravel() for look in looks])
    found = []
    for index in range(1, len(names)):
        apart = np.abs(small[:index] - small[index]).mean(axis=1)
        first = int(apart.argmin())
        if apart[first] < ALIKE:
            found.append(f"{names[index]} shows the same as {names[first]}")
    return found
