"""`unpack`: one folder of a zip archive from elsewhere, which must not write anywhere else."""

from __future__ import annotations

import shutil
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from zipfile import BadZipFile, ZipFile, ZipInfo

from nerfmac.common.checks import InputError
from nerfmac.common.files import leads_out

MOST_INFLATION = 20
"""Most bytes that a byte of the archive may hold: images hardly shrink, lists of points do."""


def unpack(archive: Path, inside: str, target: Path) -> None:
    """Unpack the folder `inside` of the zip file `archive` to the absent folder `target`.

    `target` appears when all of it is there. Raises `InputError`, with nothing unpacked, for an
    archive with a name that leads out of its folder, one that would inflate without measure, and
    one without that folder; a damaged archive is removed.
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
            f"{archive} was damaged ({error}) and is removed; type the same command again"
        ) from error


def _members(zipped: ZipFile, archive: Path, prefix: str) -> list[ZipInfo]:
    for name in zipped.namelist():
        if leads_out(archive.parent / name, archive.parent):
            raise InputError(
                f"{archive} holds {name!r}, which leads out of its folder: nothing is unpacked; "
                "delete the archive"
            )
    members = [
        member
        for member in zipped.infolist()
        if member.filename.startswith(prefix) and not member.is_dir()
    ]
    if not members:
        raise InputError(f"{archive} has no folder {prefix}; delete the archive, it has changed")
    size = sum(member.file_size for member in members)
    if size > MOST_INFLATION * archive.stat().st_size:
        raise InputError(f"{archive} would inflate to {size / 1e9:.1f} GB: nothing is unpacked")
    return members


@contextmanager
def appearing_folder(target: Path) -> Iterator[Path]:
    """Context manager that yields an empty partial folder and, on success, renames it to `target`.

    On failure the partial folder is removed, and so is one that an earlier process left.
    """
    partial = target.with_name(f".{target.name}.part")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        yield partial
        partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
