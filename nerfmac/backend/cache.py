"""The user's cache folder, for what is compiled once on this machine."""

from __future__ import annotations

import os
import platform
from pathlib import Path


def cache_folder() -> Path:
    """Where libraries are kept: `$NERFMAC_CACHE`, or the user's cache folder."""
    if folder := os.environ.get("NERFMAC_CACHE"):
        return Path(folder)
    if platform.system() == "Darwin":
        return Path.home() / "Library" / "Caches" / "nerfmac"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nerfmac"
