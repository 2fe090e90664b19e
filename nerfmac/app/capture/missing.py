"""Images of a capture that got no camera, and why."""

from __future__ import annotations

import logging
from collections.abc import Container, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from nerfmac.app.capture.frame_selection import BLURRED, laplacian_variance
from nerfmac.app.capture.structure import MISSING
from nerfmac.app.capture.video import GRAY_SIZE

log = logging.getLogger("nerfmac")


def missing_images(images: Path, names: Sequence[str], registered: Container[str]) -> list[str]:
    """Sorted `names` of images without a camera; if they are many, a warning gives the reasons.

    `images` is the images' folder; `registered` are the names of those with a camera. A image
    is blurred if its sharpness is below `BLURRED` times the median.
    """
    missing = sorted(name for name in names if name not in registered)
    if len(names) - len(missing) >= MISSING * len(names):
        return missing
    sharpness = {name: _sharpness(images / name) for name in names}
    least = BLURRED * float(np.median(list(sharpness.values())))
    blurred = [name for name in missing if sharpness[name] < least]
    others = [name for name in missing if sharpness[name] >= least]
    reasons = []
    if blurred:
        reasons.append(f"{len(blurred)} blurred, such as {blurred[0]}")
    if others:
        overlap = "whose content overlaps too little with the others'"
        reasons.append(f"{len(others)} {overlap}, such as {others[0]}")
    log.warning("%d of %d images have no camera: %s", len(missing), len(names), "; ".join(reasons))
    return missing


def _sharpness(path: Path) -> float:
    with Image.open(path) as image:
        gray = image.convert("L")
    gray.thumbnail((GRAY_SIZE, GRAY_SIZE), Image.Resampling.BOX)
    return laplacian_variance(np.asarray(gray, np.float32))
