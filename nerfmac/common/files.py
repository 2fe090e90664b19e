"""Checks of paths, and atomic writing of files: a file is written under a temporary name and then
renamed."""

import errno
import json
import os
import platform
import re
import unicodedata
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import lru_cache
from pathlib import Path
from threading import get_ident
from typing import Any
from zlib import crc32

from nerfmac.common.checks import InputError

_DEVICE_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS}

_HERE = f"{crc32(platform.node().encode()):08x}"
"""Hash of the host name. Names of partial files contain the hash, because other machines may write
to the same disk."""

_appearing: dict[Path, Path] = {}  # Final path of each partial file that this process is writing.


def user_path(path: str | os.PathLike[str]) -> Path:
    """Expand a leading ~ in a path entered by a user to the home folder, and use the spelling of an
    existing path on disk, see `spelled`."""
    return spelled(Path(path).expanduser())


def spelled(path: Path) -> Path:
    """Return `path` with the names that its folders list, so that two paths of a file are equal.

    On a Mac, a path may differ from these names in case and in the Unicode normalization of its
    characters. On Linux, a path that only exists in another normalization is returned in that one,
    because file names from a Mac often contain decomposed characters (NFD), and scene files contain
    composed ones (NFC). Otherwise, a path that does not exist is returned unchanged.
    """
    if not os.path.exists(path) and str(path).isascii():
        return path
    found = Path(path.anchor)
    for part in path.parts[bool(path.anchor) :]:
        forms = [part, *(unicodedata.normalize(form, part) for form in ("NFC", "NFD"))]
        there = next((name for name in forms if os.path.exists(found / name)), None)
        if there is None:
            return path
        found /= _as_listed(there, found)
    return found


def _as_listed(name: str, folder: Path) -> str:
    """Return the name that `folder` lists for its file `name`."""
    if not os.access(folder, os.R_OK) or name in _names_in(folder, os.stat(folder).st_mtime_ns):
        return name
    names, key = os.listdir(folder), name_key(name)  # The names above may be out of date.
    return name if name in names else next((n for n in names if name_key(n) == key), name)


@lru_cache(maxsize=64)
def _names_in(folder: Path, changed: int) -> frozenset[str]:
    """Return the names in a folder that was changed at the time `changed`."""
    return frozenset(os.listdir(folder))


def name_key(name: str) -> str:
    """Return a key that is equal for file names that differ only in case or in the Unicode
    normalization of their characters. On a Mac, such names refer to the same file."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def walk(folder: Path) -> Iterator[tuple[Path, list[str], list[str]]]:
    """Yield (folder, names of subfolders, names of files) of a folder and its subfolders, like
    `os.walk`, in name order. Links to folders are followed, but each folder is visited once."""
    visited = set()
    for parent, folders, names in os.walk(folder, followlinks=True):
        if (real := os.path.realpath(parent)) in visited:  # A link to a parent folder.
            folders.clear()
            continue
        visited.add(real)
        folders.sort()
        yield Path(parent), folders, sorted(names)


def partial_path(path: Path) -> Path:
    """Return the path of the partial file that this thread writes before it renames the file to
    `path`. `path` may be a partial file itself."""
    if path in _appearing:
        return path.with_name(f".{path.name}")
    return path.with_name(f".{path.stem}.{_HERE}-{os.getpid()}-{get_ident()}{path.suffix}")


def leads_out(path: Path, folder: Path) -> bool:
    """Return whether `path` is equal to `folder` or outside of it. `..` is resolved, but symbolic
    links are not."""
    return Path(os.path.abspath(folder)) not in Path(os.path.abspath(path)).parents


@contextmanager
def appearing(path: Path) -> Iterator[Path]:
    """Return a context manager that yields a partial file and, on success, renames it to `path`.

    If the block raises an exception, `path` is unchanged and the partial file is removed. After a
    power failure, `path` is either the old file or the complete new file, because the data is
    flushed before the file is renamed. If `path` is the partial file of an outer `appearing`, error
    messages contain the outer path. Errors of the file system, such as a missing folder, missing
    permission, or a full disk, are raised as `InputError`s.
    """
    named, partial = _appearing.get(path, path), partial_path(path)
    _refuse_folder(path)
    _remove_abandoned(path)
    _appearing[partial] = named
    try:
        try:
            partial.touch()  # fails now instead of after minutes of work
        except OSError as error:
            raise InputError(f"{named} cannot be written: {error.strerror}") from error
        yield partial
        _flush(partial)
        partial.replace(path)
        _flush(path.parent)
    except OSError as error:
        if error.errno not in _DEVICE_ERRORS and error.filename != str(partial):
            raise
        raise InputError(f"{named} cannot be written: {error.strerror}") from error
    finally:
        del _appearing[partial]
        # The file may not exist, or may not be removable in a read-only or missing folder.
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def appearing_if(path: Path | None) -> AbstractContextManager[Path | None]:
    """Return `appearing(path)`, or a context manager that yields None if `path` is None."""
    return appearing(path) if path else nullcontext()


def _flush(path: Path) -> None:
    """Flush a file's contents or a folder's entries to disk, and wait until this is done.

    On a Mac, `fsync` may leave data in the drive's cache, so F_FULLFSYNC is used to flush this
    cache as well (see Apple's fsync man page). Network disks may reject both calls, and folders
    without read permission cannot be flushed. Such errors are ignored.
    """
    import fcntl  # not available on Windows, where nerfmac exits with a message before this line

    try:
        file = os.open(path, os.O_RDONLY)
    except PermissionError:
        return
    try:
        os.fsync(file)
        if full_flush := getattr(fcntl, "F_FULLFSYNC", None):
            with suppress(OSError):
                fcntl.fcntl(file, full_flush)
    except OSError as error:
        if error.errno in _DEVICE_ERRORS:
            raise
    finally:
        os.close(file)


def _remove_abandoned(path: Path) -> None:
    """Remove the partial files of `path` that terminated processes on this machine have left
    behind."""
    with suppress(OSError):  # ignore files that cannot be removed
        for name in os.listdir(path.parent):
            stem, _, rest = name.rpartition(f".{_HERE}-")
            process = rest.partition("-")[0]
            is_partial = stem.lstrip(".") == path.stem and Path(rest).suffix == path.suffix
            if is_partial and process.isdecimal() and not _is_running(int(process)):
                path.with_name(name).unlink(missing_ok=True)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (OSError, OverflowError) as error:  # Another user's process may not be signaled.
        return not isinstance(error, ProcessLookupError)
    return True


def write_json(path: Path, values: Any) -> None:
    """Write `values` to `path` as indented JSON."""
    with appearing(path) as partial:
        partial.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")


def read_json(path: Path) -> Any:
    """Return the JSON values in a file."""
    try:
        return json.loads(path.read_bytes())  # detects UTF-8 and UTF-16
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    except json.JSONDecodeError as error:
        raise InputError(f"{path}, line {error.lineno}: not valid JSON: {error.msg}") from error
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} is not a text in UTF-8 or UTF-16; save it in one of these encodings"
        ) from error
    except (ValueError, RecursionError) as error:  # nested too deeply
        raise InputError(f"{path} cannot be read as JSON: {error}") from error


def make_folder(folder: Path) -> None:
    """Create `folder` and its parents."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"folder {folder} cannot be created: {error.strerror}") from error


def check_free(folder: Path) -> None:
    """Raise `InputError` unless `folder` can be created, or is writable and contains only hidden
    files, such as the Finder's .DS_Store."""
    above = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not above.is_dir() and above != folder:
        raise InputError(f"folder {folder} cannot be created: {above} is not a folder")
    if above.is_dir() and not os.access(above, os.W_OK | os.X_OK):
        raise InputError(f"{folder} cannot be written: there is no permission to write in {above}")
    if folder.exists() and not (folder.is_dir() and not visible_names(folder)):
        raise InputError(f"{folder} exists already; choose another folder")


def check_replaceable(path: Path, *, overwrite: bool) -> None:
    """Raise `InputError` if the output file `path` is a folder, or exists and may not be
    overwritten."""
    _refuse_folder(path)
    if path.exists() and not overwrite:
        advice = "choose another name, or replace it with --overwrite"
        raise InputError(f"{path} already exists; {advice}")


def _refuse_folder(path: Path) -> None:
    if path.is_dir():
        raise InputError(f"{path} cannot be written: it is a folder")


def visible_names(folder: Path) -> set[str]:
    """Return the names of the files in `folder` that are not hidden, or an empty set if the folder
    does not exist."""
    names = os.listdir(folder) if folder.is_dir() else []
    return {name for name in names if not name.startswith(".")}


def counted(name: str) -> list[str | int]:
    """Return a sort key for file names that compares numbers by value: 9.jpg precedes 10.jpg."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", name)]
