"""`download`: a file from the network, resumed where it broke off, and checked.

What has arrived is in NAME.part until it is whole and has the right checksum; only then NAME
appears. Neither pooch nor torch.hub resumes a download, hence urllib.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from nerfmac.app.datasets.catalog import File
from nerfmac.common.checks import InputError
from nerfmac.common.files import appearing
from nerfmac.version import version

TIMEOUT = 30.0
"""Seconds without an answer or a byte after which the connection counts as broken."""
CHUNK = 2**18
"""Bytes received at a time."""
AGAIN = "type the same command again"


def download(file: File, folder: Path, bar: Any) -> Path:
    """Download `file` into `folder` and return its path; a file that is there is taken as it is.

    `bar` is a tqdm bar of bytes. Raises `InputError` if the server cannot be reached, refuses or
    breaks off, for a wrong checksum, and if the disk is too small.
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
    """Append to `part` what it lacks of the file at `url`."""
    have = part.stat().st_size if part.exists() else 0
    with _plain_errors(url, part), _open(url, have) as answer:
        if answer is None:  # nothing is missing
            bar.update(have)
            return
        if answer.status != 206:  # the server sends all of it again
            have = 0
        length = answer.headers["Content-Length"]
        size = have + int(length) if length else None
        if size is not None and size - have > shutil.disk_usage(part.parent).free:
            needs = f"{(size - have) / 1e9:.1f} GB"
            raise InputError(f"{part.parent} has too little room: {url} needs {needs} more")
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
    """The server's answer with the bytes from `have` on, or with all; None if there are no more."""
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
    """Context manager that turns errors of the network into `InputError`s that say what to do."""
    host = urlsplit(url).netloc
    try:
        yield
    except HTTPError as error:
        error.close()
        raise InputError(
            f"{url} cannot be fetched: {host} answers {error.code} {error.reason}; if it still "
            "does later, the file has moved"
        ) from error
    except URLError as error:
        raise InputError(
            f"{host} cannot be reached ({error.reason}); `nerfmac data NAME` needs the network: "
            f"connect this machine, then {AGAIN}"
        ) from error
    except (ConnectionError, TimeoutError, HTTPException) as error:
        arrived = f"{part.stat().st_size / 1e6:.1f} MB" if part.exists() else "nothing"
        raise InputError(
            f"the connection to {host} broke ({error}); {arrived} arrived and is kept: {AGAIN}, "
            "and it goes on from there"
        ) from error
    except KeyboardInterrupt as interruption:
        interruption.add_note(f"what has arrived is kept; {AGAIN}, and it goes on from there")
        raise


def _check(part: Path, file: File) -> None:
    """Remove `part` and raise `InputError` unless it has the checksum of `file`."""
    if file.checksum is None:
        return
    kind, _, expected = file.checksum.partition(":")
    with part.open("rb") as content:
        if kind == "git":  # a blob's name: SHA-1 of a header and the content
            digest = hashlib.sha1(f"blob {part.stat().st_size}\0".encode() + content.read())
        else:
            digest = hashlib.file_digest(content, kind)
    if digest.hexdigest() != expected:
        part.unlink()
        raise InputError(
            f"{file.url} is not what it should be: its {kind} checksum is {digest.hexdigest()}, "
            f"expected {expected}; nothing of it is kept. {AGAIN[0].upper()}{AGAIN[1:]}; if it "
            "happens again, the file at that address has changed"
        )
