"""`unpack` safely extracts a folder from an untrusted zip archive."""

from __future__ import annotations

import shutil
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from zipfile import BadZipFile, ZipFile, ZipInfo

from nerfmac.common.checks import InputError
from nerfmac.common.files import leads_out

MAX_INFLATION = 20
"""Maximum ratio of the extracted size to the archive size. The ratio is large because point lists
compress well."""


def unpack(archive: Path, inside: str, target: Path) -> None:
    """Extract the folder `inside` of a zip archive to the new folder `target`.

    If the archive is damaged, contains a path outside its folder, is too large when extracted, or
    does not contain the folder, no files are extracted. A damaged archive is removed.
    """
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
    end.

    If an exception is raised, the new folder is removed. If an earlier process was killed and left
    an incomplete folder, this folder is removed first.
    """
    partial = target.with_name(f".{target.name}.part")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        yield partial
        partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
