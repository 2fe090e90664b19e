"""Disk cache of downscaled images, so that large photos are decoded only once. The file name is a
digest of the photo's path, size, and modification time and of the downscaling factor. Users may
delete all cached files."""

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

MAX_BYTES = 4 * 2**30  # Maximum size of the cache in bytes.
MIN_BYTES = 2**18  # Photos whose files have fewer bytes are decoded fast enough without the cache.
METHOD = "mean of blocks"
"""Part of the cache keys. Change this name if the downscaling method changes pixels."""

log = logging.getLogger("nerfmac")


def folder() -> Path:
    """Return the cache folder for downscaled images."""
    return cache_folder() / "images"


def decode_once(
    image: Path | Pixels, channels: int, name: str, reduce: int = 1, *, upright: bool = True
) -> Pixels:
    """Decode an image like `decode`, with the cache if a large file is downscaled."""
    if reduce == 1 or not isinstance(image, Path) or not _is_large(image):
        pixels = decode_reduced(image, name, reduce, upright=upright)
    else:
        cached = _cached_path(image, reduce, upright)
        found = _read(cached)
        pixels = decode_reduced(image, name, reduce, upright=upright) if found is None else found
        if found is None:
            _write(cached, pixels)
    return with_channels(pixels, channels, name)


def trim(max_bytes: int = MAX_BYTES) -> None:
    """Remove the least recently used images until the cache has at most `max_bytes` bytes."""
    with suppress(OSError):  # Another process may trim the cache at the same time.
        files = [(path.stat(), path) for path in folder().glob("*.png")]
        files.sort(key=lambda file: file[0].st_mtime_ns, reverse=True)
        total = 0
        for about, path in files:
            total += about.st_size
            if total > max_bytes:
                path.unlink(missing_ok=True)


def _is_large(image: Path) -> bool:
    return image.is_file() and image.stat().st_size >= MIN_BYTES


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
        os.utime(cached)  # Marks the file as recently used.
        return pixels
    except UNREADABLE:
        return None


def _write(cached: Path, pixels: Pixels) -> None:
    try:
        make_folder(cached.parent)
        with appearing(cached) as partial:
            Image.fromarray(pixels).save(partial, "PNG", compress_level=1)
    except (InputError, OSError) as error:
        log.debug("cannot cache a downscaled image: %s", error)
