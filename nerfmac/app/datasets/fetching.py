"""`fetch`: a public scene, downloaded and unpacked."""

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
    """Fetch the public scene `name` and return its folder, OUT/COLLECTION/SCENE.

    A scene that is there is returned as it is, without the network. An archive is kept beside its
    scenes, since the next of them needs no download then. A download that breaks off is resumed by
    the next call. `progress` shows a bar. Raises `InputError` for an unknown scene, without the
    network, for a wrong checksum, and for an archive that leads out of its folder.
    """
    collection, scene = find(name)
    folder = user_path(out) / collection.name
    target = folder / scene
    if target.is_dir():
        return target
    make_folder(folder)
    with locked(folder):
        if collection.inside is None:
            partial = folder / f".{scene}.part"  # resumed by the next call: it is not removed
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
