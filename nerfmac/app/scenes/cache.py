"""Copies in the cache of what takes long to read: downscaled photos, so that large photos are
decoded only once, and captures that are stored in one file, such as an archive or a video.

The name of a copy is a digest of the path, size, and modification time of its file. Users may
delete all cached files.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import numpy as np
from PIL import Image

from nerfmac.backend.host import cache_folder
from nerfmac.common import InputError, UInt8Array, appearing, log, make_folder

MAX_BYTES = 4 * 2**30  # Maximum size of the cache in bytes.
MIN_BYTES = 2**18  # Photos whose files have fewer bytes are decoded fast enough without the cache.
METHOD = "mean of blocks of sRGB values"
"""Part of the cache keys. Change this name if the downscaling method changes pixels."""


def unpacked(file: Path, name: str, write: Callable[[Path], None]) -> Path:
    """Return the cached folder for `file`. If the folder does not exist, it is created, and `write`
    writes its contents. `name` is the name of the folder."""
    parent = cache_folder() / "captures" / _digest(file)
    if not (parent / name).is_dir():
        partial = parent / f".{uuid4().hex}"
        make_folder(partial)
        try:
            write(partial)
            partial.rename(parent / name)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return parent / name


def image_cache_folder() -> Path:
    """Return the cache folder for downscaled images."""
    return cache_folder() / "images"


def trim(max_bytes: int = MAX_BYTES) -> None:
    """Remove the least recently used images until the cache has at most `max_bytes` bytes."""
    with suppress(OSError):  # Another process may trim the cache at the same time.
        files = [(path.stat(), path) for path in image_cache_folder().glob("*.png")]
        files.sort(key=lambda file: file[0].st_mtime_ns, reverse=True)
        total = 0
        for about, path in files:
            total += about.st_size
            if total > max_bytes:
                path.unlink(missing_ok=True)


def cached_path(image: Path | UInt8Array, reduce: int, upright: bool) -> Path | None:
    """Return the file of an image in the cache, or None if the image is not cached."""
    if reduce == 1 or not isinstance(image, Path) or not image.is_file():
        return None
    if image.stat().st_size < MIN_BYTES:
        return None
    return image_cache_folder() / f"{_digest(image, METHOD, reduce, upright)}.png"


def read_cached(cached: Path) -> UInt8Array | None:
    """Read a downscaled image, or return None if its file does not exist or is invalid."""
    try:
        with Image.open(cached) as image:
            if image.mode not in ("RGB", "RGBA"):
                return None
            pixels = np.asarray(image)
        os.utime(cached)  # Marks the file as recently used.
        return pixels
    except Exception:  # Pillow decoders may raise exceptions of any type for invalid files.
        return None


def write_cached(cached: Path, pixels: UInt8Array) -> None:
    """Write a downscaled image. A disk that is full is no error."""
    try:
        make_folder(cached.parent)
        with appearing(cached) as partial:
            Image.fromarray(pixels).save(partial, "PNG", compress_level=1)
    except (InputError, OSError) as error:
        log.debug("cannot cache a downscaled image: %s", error)


def _digest(file: Path, *more: object) -> str:
    """Return a name for a copy of a file. `more` is everything else that the copy depends on."""
    about = file.stat()
    key = json.dumps([str(file.resolve()), about.st_size, about.st_mtime_ns, *more])
    return hashlib.sha256(key.encode()).hexdigest()[:32]
