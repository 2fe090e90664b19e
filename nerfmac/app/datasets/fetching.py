"""`fetch` downloads and unpacks a public scene."""

from __future__ import annotations

import hashlib
import os
import shutil
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen
from zipfile import BadZipFile, ZipFile, ZipInfo

from tqdm.auto import tqdm

from nerfmac.app.datasets.catalog import File, find
from nerfmac.common.checks import InputError
from nerfmac.common.files import appearing, leads_out, make_folder, user_path
from nerfmac.common.lock import locked
from nerfmac.version import version

MAX_INFLATION = 20
"""Maximum ratio of the extracted size to the archive size. Point lists compress well."""
TIMEOUT = 30.0  # A connection is considered broken if no data arrives for this number of seconds.
CHUNK = 2**18  # Number of bytes received at a time.
AGAIN = "run the same command again"


def fetch(name: str, out: str | os.PathLike[str] = "data", *, progress: bool = True) -> Path:
    """Download a public scene to the folder OUT/COLLECTION/SCENE, and return this folder.
    If the scene folder already exists, nothing is downloaded. An archive is stored next to its
    scenes, so that its other scenes need no further download. If a download is interrupted, the
    next call resumes it.

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
    options: Any = {"unit": "B", "unit_scale": True, "disable": not progress, "delay": 0.2}
    return tqdm(desc=name, total=size, **options)


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


def download(file: File, folder: Path, bar: Any) -> Path:
    """Download a file to `folder`, and return its path. An existing file is not downloaded again.

    Data is stored in NAME.part until it is complete and verified, so that an interrupted download
    can be resumed. urllib is used because neither pooch nor torch.hub can resume downloads. `bar`
    is a tqdm progress bar that counts bytes.
    """
    path = folder / file.path
    if path.exists():
        bar.update(path.stat().st_size)
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    _receive(file.url, part, bar)
    _check(part, file)
    with appearing(path) as partial:
        part.replace(partial)
    return path


def _receive(url: str, part: Path, bar: Any) -> None:
    """Append the missing bytes of the file at `url` to `part`."""
    have = part.stat().st_size if part.exists() else 0
    with _plain_errors(url, part), _open(url, have) as answer:
        if answer is None:  # The file is complete.
            bar.update(have)
            return
        if answer.status != 206:  # The server sends the whole file.
            have = 0
        length = answer.headers["Content-Length"]
        size = have + int(length) if length else None
        if size is not None and size - have > shutil.disk_usage(part.parent).free:
            needs = f"{(size - have) / 1e9:.1f} GB"
            raise InputError(
                f"the disk of {part.parent} is too small: {url} needs {needs} more; free some space"
            )
        bar.total = bar.total or size
        bar.update(have)
        with part.open("ab" if have else "wb") as file:
            while chunk := answer.read(CHUNK):
                file.write(chunk)
                bar.update(len(chunk))
        if size is not None and part.stat().st_size < size:
            raise ConnectionError("the connection was closed")


@contextmanager
def _open(url: str, have: int) -> Iterator[HTTPResponse | None]:
    """Context manager that yields the response of the server, or None if no bytes are missing. The
    response contains the bytes from offset `have` on. If the server does not support range
    requests, the response contains all bytes."""
    headers = {"User-Agent": f"nerfmac/{version()}"}
    if have:
        headers["Range"] = f"bytes={have}-"
    try:
        answer = urlopen(Request(url, headers=headers), timeout=TIMEOUT)
    except HTTPError as error:
        if error.code != 416 or error.headers["Content-Range"] != f"bytes */{have}":
            raise
        error.close()
        yield None
        return
    with answer:
        yield answer


@contextmanager
def _plain_errors(url: str, part: Path) -> Iterator[None]:
    """Context manager that converts network errors to `InputError` with advice."""
    host = urlsplit(url).netloc
    try:
        yield
    except HTTPError as error:
        error.close()
        raise InputError(
            f"cannot download {url}: {host} responds with {error.code} {error.reason}; try again "
            "later. If the error persists, the file has been moved"
        ) from error
    except URLError as error:
        raise InputError(
            f"cannot reach {host} ({error.reason}); `nerfmac data NAME` requires the network: "
            f"connect this machine, then {AGAIN}"
        ) from error
    except (ConnectionError, TimeoutError, HTTPException) as error:
        received = f"{part.stat().st_size / 1e6:.1f} MB" if part.exists() else "nothing"
        raise InputError(
            f"the connection to {host} was interrupted ({error}) after {received}; {AGAIN} to "
            "continue the download"
        ) from error
    except KeyboardInterrupt as interruption:
        interruption.add_note(f"received data is kept; {AGAIN} to continue the download")
        raise


def _check(part: Path, file: File) -> None:
    """Verify the checksum of `part`. If it is wrong, remove `part` and raise `InputError`."""
    if file.checksum is None:
        return
    kind, _, expected = file.checksum.partition(":")
    with part.open("rb") as content:
        if kind == "git":  # Object name of a blob: SHA-1 of a header and the content.
            digest = hashlib.sha1(f"blob {part.stat().st_size}\0".encode() + content.read())
        else:
            digest = hashlib.file_digest(content, kind)
    if digest.hexdigest() != expected:
        part.unlink()
        raise InputError(
            f"{file.url} has the wrong {kind} checksum {digest.hexdigest()} (expected {expected}) "
            f"and was deleted. {AGAIN[0].upper()}{AGAIN[1:]}; if the error persists, the file at "
            "that address has changed"
        )
