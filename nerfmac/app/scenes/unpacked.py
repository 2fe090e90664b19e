"""Cached copies of captures that are stored in one file, such as an archive or a video.

Each file has its own folder in the cache, whose name is a digest of the path, size, and
modification time of the file. Users may delete all cached folders.
"""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

from nerfmac.backend.host import cache_folder
from nerfmac.common import make_folder


def unpacked(file: Path, name: str, write: Callable[[Path], None]) -> Path:
    """Return the cached folder for `file`. If the folder does not exist, it is created, and `write`
    writes its contents. `name` is the name of the folder."""
    about = file.stat()
    key = json.dumps([str(file.resolve()), about.st_size, about.st_mtime_ns])
    parent = cache_folder() / "captures" / hashlib.sha256(key.encode()).hexdigest()[:32]
    if not (parent / name).is_dir():
        partial = parent / f".{uuid4().hex}"
        make_folder(partial)
        try:
            write(partial)
            partial.rename(parent / name)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return parent / name
