"""Reduced pictures, kept on disk: a large photograph is decoded and reduced once.

They are PNG files in `pictures` of the cache folder. The name is a digest of the photograph's path,
size and time of change and of what was made of it, so that one that has changed is decoded anew.
A file there that cannot be read or written is as if it were not there, and deleting any is safe.
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

from nerfmac.backend.host import cache_folder
from nerfmac.common.checks import InputError
from nerfmac.common.files import appearing, make_folder
from nerfmac.scenes.pictures import UNREADABLE, Pixels, decode_reduced, with_channels

MOST_BYTES = 4 * 2**30
"""Of all pictures that are kept; those that were not used for longest go first."""
LEAST_BYTES = 2**18
"""A picture file that is smaller is decoded as quickly as a kept one is read."""
METHOD = "mean of blocks"
"""How pictures are reduced; another way needs another word here, as it makes other pixels."""

log = logging.getLogger("nerfmac")


def folder() -> Path:
    """Where reduced pictures are kept."""
    return cache_folder() / "pictures"


def decode_once(
    picture: Path | Pixels, channels: int, name: str, reduce: int = 1, *, upright: bool = True
) -> Pixels:
    """As `decode`, from the cache if this was done before; a large file that is reduced is kept."""
    if reduce == 1 or not isinstance(picture, Path) or not _is_large(picture):
        pixels = decode_reduced(picture, name, reduce, upright=upright)
    else:
        kept = _place(picture, reduce, upright)
        found = _read(kept)
        pixels = decode_reduced(picture, name, reduce, upright=upright) if found is None else found
        if found is None:
            _write(kept, pixels)
    return with_channels(pixels, channels, name)


def trim(most: int = MOST_BYTES) -> None:
    """Remove what was not used for longest, until what is kept has at most `most` bytes."""
    with suppress(OSError):  # another process may trim too
        files = [(path.stat(), path) for path in folder().glob("*.png")]
        files.sort(key=lambda file: file[0].st_mtime_ns, reverse=True)
        total = 0
        for about, path in files:
            total += about.st_size
            if total > most:
                path.unlink(missing_ok=True)


def _is_large(picture: Path) -> bool:
    return picture.is_file() and picture.stat().st_size >= LEAST_BYTES


def _place(picture: Path, reduce: int, upright: bool) -> Path:
    about = picture.stat()
    key = str(picture.resolve()), about.st_size, about.st_mtime_ns, METHOD, reduce, upright
    return folder() / f"{hashlib.sha256(json.dumps(key).encode()).hexdigest()[:32]}.png"


def _read(kept: Path) -> Pixels | None:
    try:
        with Image.open(kept) as image:
            if image.mode not in ("RGB", "RGBA"):
                return None
            pixels = np.asarray(image)
        os.utime(kept)  # it was used now
        return pixels
    except UNREADABLE:
        return None


def _write(kept: Path, pixels: Pixels) -> None:
    try:
        make_folder(kept.parent)
        with appearing(kept) as partial:
            Image.fromarray(pixels).save(partial, "PNG", compress_level=1)
    except (InputError, OSError) as error:
        log.debug("a reduced picture is not kept: %s", error)
