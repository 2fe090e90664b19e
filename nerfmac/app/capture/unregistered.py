"""Report on the images for which structure from motion found no camera."""

from collections.abc import Container, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from nerfmac.app.capture.video import BLURRED, GRAY_SIZE, laplacian_variance
from nerfmac.app.scenes.images import opened
from nerfmac.common import log


def missing_images(images: Path, names: Sequence[str], registered: Container[str]) -> list[str]:
    """Return the sorted names of the images without a camera. If there are any, log the probable
    reasons. An image counts as blurred if its sharpness is below `BLURRED` times the median
    sharpness."""
    missing = sorted(name for name in names if name not in registered)
    if not missing:
        return missing
    sharpness = {name: _sharpness(images / name) for name in names}
    threshold = BLURRED * float(np.median(list(sharpness.values())))
    blurred = [name for name in missing if sharpness[name] < threshold]
    others = [name for name in missing if sharpness[name] >= threshold]
    reasons = []
    if blurred:
        reasons.append(f"{len(blurred)} blurred, such as {blurred[0]}")
    if others:
        overlap = "with too little overlap with other images"
        reasons.append(f"{len(others)} {overlap}, such as {others[0]}")
    log.warning("%d of %d images have no camera: %s", len(missing), len(names), "; ".join(reasons))
    return missing


def _sharpness(path: Path) -> float:
    with opened(path) as image:
        gray = image.convert("L")
    gray.thumbnail((GRAY_SIZE, GRAY_SIZE), Image.Resampling.BOX)
    return laplacian_variance(np.asarray(gray, np.float32))
