"""Pictures of a capture for which no camera was found, and whether blur is the reason."""

from __future__ import annotations

import logging
from collections.abc import Container, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from nerfmac.capture.choice import BLURRED
from nerfmac.capture.motion import laplacian_variance
from nerfmac.capture.structure import MISSING
from nerfmac.capture.video import GREY_SIZE

log = logging.getLogger("nerfmac")


def missing_pictures(images: Path, names: Sequence[str], found: Container[str]) -> list[str]:
    """The `names` that are not among those `found`; says in a line why, if they are many.

    The pictures are in the folder `images`. One is blurred if it has less than `BLURRED` of the
    median sharpness of all.
    """
    missing = sorted(name for name in names if name not in found)
    if len(names) - len(missing) >= MISSING * len(names):
        return missing
    sharpness = {name: _sharpness(images / name) for name in names}
    usual = float(np.median(list(sharpness.values())))
    blurred = [name for name in missing if sharpness[name] < BLURRED * usual]
    others = [name for name in missing if name not in blurred]
    reasons = []
    if blurred:
        reasons.append(f"{len(blurred)} blurred, such as {blurred[0]}")
    if others:
        overlap = "whose content overlaps too little with the others'"
        reasons.append(f"{len(others)} {overlap}, such as {others[0]}")
    log.warning(
        "%d of %d pictures have no camera: %s", len(missing), len(names), "; ".join(reasons)
    )
    return missing


def _sharpness(path: Path) -> float:
    with Image.open(path) as image:
        grey = image.convert("L")
    grey.thumbnail((GREY_SIZE, GREY_SIZE), Image.Resampling.BOX)
    return laplacian_variance(np.asarray(grey, np.float32)) if min(grey.size) >= 3 else 0.0
