"""`fetch` downloads and unpacks a public scene."""

import logging
import os
import shutil
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit
from zipfile import BadZipFile, ZipFile, ZipInfo

from tqdm.auto import tqdm

from nerfmac.app.datasets.catalog import File, find
from nerfmac.common import InputError, leads_out, locked, make_folder, user_path

MAX_INFLATION = 20
"""Maximum ratio of the extracted size to the archive size. Point lists compress well."""
TIMEOUT = 30.0  # A connection is considered broken if no data arrives for this number of seconds.
CHUNK = 2**18  # Number of bytes received at a time.


def fetch(name: str, out: str | os.PathLike[str] = "data", *, progress: bool = True) -> Path:
    """Download a public scene to the folder OUT/COLLECTION/SCENE, and return this folder.
    If the scene folder already exists, nothing is downloaded. An archive is stored next to its
    scenes, so that its other scenes need no further download.

    Args:
        name: Name of the scene, as SCENE or COLLECTION/SCENE.
        out: Folder that contains a folder for each collection. If the folder does not exist, it is
            created.
        progress: Whether to show a progress bar.

    Returns:
        Path of the scene folder, OUT/COLLECTION/SCENE, which `load_scene` can read.

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
            bar = tqdm(collection.files, scene, unit="file", disable=not progress, delay=0.2)
            with appearing_folder(target) as partial:
                for file in bar:
                    download(file, partial, progress=False)
        else:
            archive = download(collection.files[0], folder, progress=progress)
            inside = "/".join(filter(None, [collection.inside, scene]))
            unpack(archive, inside, target)
    return target


def unpack(archive: Path, inside: str, target: Path) -> None:
    """Extract the folder `inside` of a zip archive to the new folder `target`. If the archive is
    damaged, contains a path outside its folder, is too large when extracted, or does not contain
    the folder, no files are extracted. A damaged archive is removed."""
    try:
        with ZipFile(archive) as zipped:
            members = _members(zipped, archive, f"{inside}/")
            with appearing_folder(target) as partial:
                for member in members:
                    path = partial / member.filename.removeprefix(f"{inside}/")
                    path.parent.mkdir(parents=True, exist_ok=True)
                    with zipped.open(member) as source, path.open("wb") as copy:
                        shutil.copyfileobj(source, copy)
    except (BadZipFile, EOFError, NotImplementedError, zlib.error) as error:
        archive.unlink()
        raise InputError(
            f"the archive {archive} was damaged ({error}) and has been removed; run the same "
            "command again"
        ) from error


def _members(zipped: ZipFile, archive: Path, prefix: str) -> list[ZipInfo]:
    for name in zipped.namelist():
        if leads_out(archive.parent / name, archive.parent):
            raise InputError(
                f"{archive} contains {name!r}, which is outside its folder, so nothing was "
                "extracted; delete the archive"
            )
    members = [
        member
        for member in zipped.infolist()
        if member.filename.startswith(prefix) and not member.is_dir()
    ]
    if not members:
        raise InputError(f"{archive} has no folder {prefix}; delete the archive and try again")
    size = sum(member.file_size for member in members)
    if size > MAX_INFLATION * archive.stat().st_size:
        raise InputError(
            f"{archive} would expand to {size / 1e9:.1f} GB, so nothing was extracted; delete it"
        )
    return members


@contextmanager
def appearing_folder(target: Path) -> Iterator[Path]:
    """Context manager that yields a new empty folder and renames this folder to `target` at the
    end. If an exception is raised, the new folder is removed. If an earlier process was killed and
    left an incomplete folder, this folder is removed first."""
    partial = target.with_name(f".{target.name}.part")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        yield partial
        partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def download(file: File, folder: Path, *, progress: bool) -> Path:
    """Download a file to `folder`, and return its path. The file appears only when it is complete
    and verified. An existing file with the expected checksum is not downloaded again."""
    # These packages are slow to import, and other commands do not need them.
    import pooch
    import requests

    pooch.get_logger().setLevel(logging.WARNING)
    host = urlsplit(file.url).netloc
    again = "run the same command again"
    downloader = pooch.HTTPDownloader(progress, CHUNK, timeout=TIMEOUT)
    try:
        path = pooch.retrieve(file.url, file.checksum, file.path, folder, downloader=downloader)
    except ValueError as error:
        raise InputError(
            f"{file.url} does not have the checksum {file.checksum} and was deleted; {again}. If "
            "the error persists, the file at that address has changed"
        ) from error
    except requests.HTTPError as error:
        raise InputError(
            f"the download failed with {error}; try again later. If the error persists, the file "
            "has been moved"
        ) from error
    except requests.exceptions.ChunkedEncodingError as error:
        raise InputError(f"the connection to {host} was interrupted; {again}") from error
    except requests.RequestException as error:
        raise InputError(
            f"cannot reach {host} ({type(error).__name__}); `nerfmac data NAME` requires the "
            f"network: connect this machine, then {again}"
        ) from error
    return Path(path)
