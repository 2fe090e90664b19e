"""Files of a capture's source: which of them are copies, and what has changed since a capture.

Files are compared by their content, so a folder may be copied or touched without a change.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from nerfmac.common.checks import InputError

Digests = dict[str, str]
"""Hash of each file's content by the file's path in the source."""

EXAMPLES = 3
"""Largest number of names in a message."""

log = logging.getLogger("nerfmac")


def digests_of(paths: Sequence[Path], root: Path) -> Digests:
    """Return the digests of files in or near `root`; InputError for one that cannot be read."""
    names = [Path(os.path.relpath(path, root)).as_posix() for path in paths]
    with ThreadPoolExecutor() as pool:
        return dict(zip(names, pool.map(_digest, paths), strict=True))


def changes(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    """Describe the files that were added, removed, or changed; empty if none was."""
    added = [name for name in now if name not in before]
    removed = [name for name in before if name not in now]
    changed = [name for name in now if name in before and now[name] != before[name]]
    groups = {"added": added, "removed": removed, "changed": changed}
    return ", ".join(_listed(names, verb) for verb, names in groups.items() if names)


def without_copies(paths: Sequence[Path], root: Path, digests: Mapping[str, str]) -> list[Path]:
    """Return the `paths` without identical copies, which get one line in the log.

    Of equal files the one with the shortest name is kept: copies are called "a (1)" or "a - Copy".
    """
    kept: dict[str, Path] = {}
    digest = {path: digests[path.relative_to(root).as_posix()] for path in paths}
    for path in sorted(paths, key=lambda path: len(path.name)):
        kept.setdefault(digest[path], path)
    copies = [path for path in paths if kept[digest[path]] != path]
    if copies:
        log.warning(
            f"{len(copies)} of {len(paths)} photos are identical copies of others and are skipped, "
            f"such as {copies[0].name} of {kept[digest[copies[0]]].name}"
        )
    return [path for path in paths if path not in copies]


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error


def _listed(names: Sequence[str], verb: str) -> str:
    shown = ", ".join(names[:EXAMPLES]) + ", ..." * (len(names) > EXAMPLES)
    return f"{len(names)} {verb} ({shown})"
