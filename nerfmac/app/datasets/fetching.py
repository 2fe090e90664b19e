"""`fetch` downloads and unpacks a public scene."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from nerfmac.app.datasets.catalog import find
from nerfmac.app.datasets.download import download
from nerfmac.app.datasets.unpack import unpack
from nerfmac.common.files import make_folder, user_path
from nerfmac.common.lock import locked


def fetch(name: str, out: str | os.PathLike[str] = "data", *, progress: bool = True) -> Path:
    """Download a public scene.

    If the scene folder already exists, nothing is downloaded. An archive is stored next to its
    scenes, so that its other scenes need no further download. If a download is interrupted, the
    next call resumes it.

    Args:
        name: Name of the scene, as SCENE or COLLECTION/SCENE.
        out: Folder to download to.
        progress: Whether to show a progress bar.

    Returns:
        The scene folder, OUT/COLLECTION/SCENE.

    Raises:
        InputError: If the scene is unknown, the network is not available, the checksum is wrong, or
            the archive contains a path outside its folder.
    """
    collection, scene = find(name)
    folder = user_path(out) / collection.name
    target = folder / scene
    if target.is_dir():
        return target
    make_folder(folder)
    with locked(folder):
        if collection.inside is None:
            partial = folder / f".{scene}.part"  # Kept, because the next call resumes it.
            sizes = [file.size or 0 for file in collection.files]
            with _bar(scene, sum(sizes), progress) as bar:
                for file in collection.files:
                    download(file, partial, bar)
            partial.rename(target)
        else:
            (file,) = collection.files
            with _bar(file.path, None, progress) as bar:
                archive = download(file, folder, bar)
            inside = "/".join(filter(None, [collection.inside, scene]))
            unpack(archive, inside, target)
    return target


def _bar(name: str, size: int | None, progress: bool) -> Any:
    options: dict[str, Any] = {
        "unit": "B",
        "unit_scale": True,
        "disable": not progress,
        "delay": 0.2,
    }
    return tqdm(desc=name, total=size, **options)
