"""A disk cache of reduced images: a large photo is decoded and reduced once.

Reduced images are PNG files in `images` of the cache folder. A name is a digest of the
photo's path, size and time of change and of the reduction, so a changed photo is decoded
again. Cached files that cannot be read or written are ignored, and any may be deleted.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from contextlib import suppress
from pathlib import Path

import numpy as np
from PIL import Image

from nerfmac.app.scenes.images import UNREADABLE, Pixels, decode_reduced, with_channels
from nerfmac.backend.host import cache_folder
from nerfmac.common.checks import InputError
from nerfmac.common.files import appearing, make_folder

MOST_BYTES = 4 * 2**30
"""Size in bytes to which `trim` reduces the cache; it removes the least recently used images."""
LEAST_BYTES = 2**18
"""Smallest size, in bytes, of a photo whose reduction is cached: others decode fast anyway."""
METHOD = "mean of blocks"
"""Name of the reduction in cache keys. A method that makes other pixels needs another name."""

log = logging.getLogger("nerfmac")


def folder() -> Path:
    """Return the folder of reduced images."""
    return cache_folder() / "images"


def decode_once(
    image: Path | Pixels, channels: int, name: str, reduce: int = 1, *, upright: bool = True
) -> Pixels:
    """Decode as `decode` does, through the cache for a large file that is reduced."""
    if reduce == 1 or not isinstance(image, Path) or not _is_large(image):
        pixels = decode_reduced(image, name, reduce, upright=upright)
    else:
        cached = _cached_path(image, reduce, upright)
        found = _read(cached)
        pixels = decode_reduced(image, name, reduce, upright=upright) if found is None else found
        if found is None:
            _write(cached, pixels)
    return with_channels(pixels, channels, name)


def trim(most: int = MOST_BYTES) -> None:
    """Remove the least recently used images until at most `most` bytes are left."""
    with suppress(OSError):  # another process may trim too
        files = [(path.stat(), path) for path in folder().glob("*.png")]
        files.sort(key=lambda file: file[0].st_mtime_ns, reverse=True)
        total = 0
        for about, path in files:
            total += about.st_size
            if total > most:
                path.unlink(missing_ok=True)


def _is_large(image: Path) -> bool:
    return image.is_file() and image.stat().st_size >= LEAST_BYTES


def _cached_path(image: Path, reduce: int, upright: bool) -> Path:
    about = image.stat()
    key = str(image.resolve()), about.st_size, about.st_mtime_ns, METHOD, reduce, upright
    return folder() / f"{hashlib.sha256(json.dumps(key).encode()).hexdigest()[:32]}.png"


def _read(cached: Path) -> Pixels | None:
    try:
        with Image.open(cached) as image:
            if image.mode not in ("RGB", "RGBA"):
                return None
            pixels = np.asarray(image)
        os.utime(cached)  # it was used now
        return pixels
    except UNREADABLE:
        return None


def _write(cached: Path, pixels: Pixels) -> None:
    try:
        make_folder(cached.parent)
        with appearing(cached) as partial:
            Image.fromarray(pixels).save(partial, "PNG", compress_level=1)
    except (InputError, OSError) as error:
        log.debug("a reduced image is not kept: %s", error)
