"""The user's cache folder, for what is made once on this machine and may be made again."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from nerfmac.common.checks import InputError
from nerfmac.common.files import user_path

ELSEWHERE = "NERFMAC_CACHE names another folder"
"""What to do where the folder cannot be written."""


def cache_folder() -> Path:
    """`$NERFMAC_CACHE`, or the user's cache folder; raises `InputError` if there is neither."""
    if folder := os.environ.get("NERFMAC_CACHE"):
        return user_path(folder)
    try:
        if platform.system() == "Darwin":
            return Path.home() / "Library" / "Caches" / "nerfmac"
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nerfmac"
    except RuntimeError as error:
        raise InputError(
            "there is no home folder to keep compiled kernels in; set NERFMAC_CACHE to a folder"
        ) from error
