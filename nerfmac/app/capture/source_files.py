"""Detection of identical copies and of changes in the source files of a capture, by content."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from nerfmac.common.checks import InputError

Digests = dict[str, str]
"""Content hash of each file, keyed by its path in the source folder."""

EXAMPLES = 3  # Maximum number of file names in a message.

log = logging.getLogger("nerfmac")


def digests_of(paths: Sequence[Path], root: Path) -> Digests:
    """Return the content hashes of files, keyed by their path relative to `root`."""
    names = [Path(os.path.relpath(path, root)).as_posix() for path in paths]
    with ThreadPoolExecutor() as pool:
        return dict(zip(names, pool.map(_digest, paths), strict=True))


def changes(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    """Describe which files were added, removed, or changed between two sets of digests."""
    added = [name for name in now if name not in before]
    removed = [name for name in before if name not in now]
    changed = [name for name in now if name in before and now[name] != before[name]]
    groups = {"added": added, "removed": removed, "changed": changed}
    return ", ".join(_listed(names, verb) for verb, names in groups.items() if names)


def without_copies(paths: Sequence[Path], root: Path, digests: Mapping[str, str]) -> list[Path]:
    """Drop identical copies from `paths`, and log the number of dropped files. The file with the
    shortest name remains, because copies have names such as "a (1)" or "a - Copy"."""
    kept: dict[str, Path] = {}
    digest = {path: digests[path.relative_to(root).as_posix()] for path in paths}
    for path in sorted(paths, key=lambda path: len(path.name)):
        kept.setdefault(digest[path], path)
    copies = [path for path in paths if kept[digest[path]] != path]
    if copies:
        log.warning(
            f"skipping {len(copies)} of {len(paths)} photos, because they are identical copies of "
            f"others, such as {copies[0].name} of {kept[digest[copies[0]]].name}"
        )
    return [path for path in paths if path not in copies]


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error


def _listed(names: Sequence[str], verb: str) -> str:
    shown = ", ".join(names[:EXAMPLES]) + ", ..." * (len(names) > EXAMPLES)
    return f"{len(names)} {verb} ({shown})"
