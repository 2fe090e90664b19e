"""Which frames of a video are taken: as few as its motion asks for, each the sharpest nearby."""

from __future__ import annotations

import logging

import numpy as np

from nerfmac.capture.motion import Frames

SPACING = 0.06
"""How far the picture moves between frames that are taken, in longer sides, where that gives
between `FEWEST` and `MOST` of them."""
FEWEST, MOST = 50, 200
NEAR = 0.7
"""The part of a stretch, around its middle, in which its frame is looked for first."""
BLURRED = 0.35
"""A frame is blurred if it has less than this part of its neighbours' sharpness."""
NEIGHBOURS = 9

log = logging.getLogger("nerfmac")


def choose(frames: Frames, count: int | None = None) -> list[int]:
    """The numbers of the frames to take, ascending; about `count` of them if that is given.

    The way that the picture has moved is divided into equal stretches, so that a camera at rest
    gives one frame and a fast one many. Of each stretch the sharpest frame near its middle is
    taken. One that is blurred all the same, beside the others that were taken, is left out, and a
    line says how many were.
    """
    total = len(frames.sharpness)
    way = frames.travelled[-1]
    stretches = count or int(np.clip(round(way / SPACING), FEWEST, MOST))
    if stretches >= total:
        return _sharp(frames, list(range(total)))
    # Where nothing moves, time divides the frames instead.
    place = (
        frames.travelled / way if way > 0 else np.arange(total) / max(total - 1, 1)
    ) * stretches
    stretch = np.minimum(place.astype(int), stretches - 1)
    chosen = []
    for number in range(stretches):
        inside = np.flatnonzero(stretch == number)
        near = inside[np.abs(place[inside] - number - 0.5) <= NEAR / 2]
        candidates = near if len(near) else inside
        if len(candidates):
            chosen.append(int(candidates[frames.sharpness[candidates].argmax()]))
    kept = _sharp(frames, chosen)
    if len(kept) < len(chosen):
        log.info("%d stretches of the video are blurred and left out", len(chosen) - len(kept))
    return kept


def _sharp(frames: Frames, chosen: list[int]) -> list[int]:
    sharpness = frames.sharpness[chosen]
    kept = []
    for index, number in enumerate(chosen):
        first = min(max(index - NEIGHBOURS // 2, 0), max(len(chosen) - NEIGHBOURS, 0))
        usual = np.median(sharpness[first : first + NEIGHBOURS])
        if sharpness[index] >= BLURRED * usual:
            kept.append(number)
    return kept
