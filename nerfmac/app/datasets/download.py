"""`download` downloads and verifies a file. Interrupted downloads can be resumed.

Received data is stored in NAME.part until it is complete and has the correct checksum. urllib is
used because neither pooch nor torch.hub can resume downloads.
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
"""A connection is considered broken if no data arrives for this number of seconds."""
CHUNK = 2**18
"""Number of bytes received at a time."""
AGAIN = "run the same command again"


def download(file: File, folder: Path, bar: Any) -> Path:
    """Download a file to `folder`, and return its path. An existing file is not downloaded again.
    `bar` is a tqdm progress bar that counts bytes."""
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
    """Context manager that yields the response of the server, or None if no bytes are missing.

    The response contains the bytes from offset `have` on. If the server does not support range
    requests, the response contains all bytes.
    """
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
    """Verify the checksum of `part`. If the checksum is wrong, remove `part` and raise
    `InputError`."""
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
