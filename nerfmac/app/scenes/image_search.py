"""Finding the images that a file names, in the scene's folder.

No name leads out of that folder, neither by `..` nor by a path elsewhere. A link within it may, as
large images are often kept on another disk; `load_scene` warns of that.
"""

from __future__ import annotations

import logging
import os
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path, PurePosixPath

from nerfmac.app.scenes.images import (
    ENDINGS,
    TRIED,
    UNSUPPORTED,
    inspect,
    is_image,
    is_unsupported,
    unsupported,
)
from nerfmac.common.checks import InputError
from nerfmac.common.files import leads_out

OTHER_FOLDERS = re.compile(r"(mask|depth|normal|semantic|label|images_).*", re.IGNORECASE)
"""Names of folders that hold masks, depths or other sizes under the images' own names."""

log = logging.getLogger("nerfmac")


class ImageSearch:
    """Finds images by the names that a file gives them, in the scene's `folder`.

    A name may have another file extension, also an unsupported one, or none, backslashes, or a path
    of another machine. A image that is not where its name says is searched by the end of its
    path: at least the last `tail` parts must agree, exactly one image must agree best, and no
    other name may have found it. It must have the size and channels of one of the other images:
    photos do not stand in for cut-outs.

    Names are relative to `roots`, folders within the scene's, tried in this order, then to
    `folder`.
    """

    def __init__(self, folder: Path, *, roots: Sequence[Path] = (), tail: int = 1) -> None:
        self.folder, self._roots, self._tail = folder, (*roots, folder), tail
        self._as_named: list[Path] = []

    def existing(self, names: Sequence[str], where: str) -> list[tuple[int, Path]]:
        """Return index and path of the images among `names` that exist; warns of the others.

        Raises InputError that names the file `where` if none exists.
        """
        found = self.find_all(names, where)
        there = [(index, path) for index, path in enumerate(found) if path]
        if not there:
            raise InputError(
                f"none of the {len(names)} images of {where} exist; the first is {names[0]!r}, "
                f"looked for in {self.folder}: put them there"
            )
        if len(there) < len(names):
            log.warning(
                f"{len(names) - len(there)} of {len(names)} images of {where} do not exist; the "
                f"other {len(there)} are used"
            )
        return there

    def find_all(self, names: Sequence[str], where: str) -> list[Path | None]:
        """Return the paths of `names`, None where none exists; warns of those found elsewhere."""
        found = [self._named(name) for name in names]
        other = [path for path in found if path is not None and is_unsupported(path.name)]
        found = [None if path in other else path for path in found]
        taken = {path for path in found if path is not None}
        self._as_named += [path for path in found if path is not None]
        elsewhere = {}
        for index, name in enumerate(names):
            if found[index] is None and (path := self._by_its_end(name, taken)):
                elsewhere[index] = path
                taken.add(path)
        for index in self._unlike_the_others(elsewhere, names, where):
            del elsewhere[index]
        for index, path in elsewhere.items():
            found[index] = path
        if other and not any(found):
            raise unsupported(other[0], len(other))
        if elsewhere:
            first = next(iter(elsewhere))
            log.warning(
                f"{len(elsewhere)} of {len(names)} images are not where {where} says, and were "
                f"found by their names: {names[first]!r} is {elsewhere[first]}"
            )
        return found

    def _unlike_the_others(
        self, elsewhere: Mapping[int, Path], names: Sequence[str], where: str
    ) -> list[int]:
        """Indices of the images found `elsewhere` whose size and channels no other image has.

        The others are the images found as named, and those of the folder in which most were found
        elsewhere, if these are more. Warns of unlike ones.
        """
        rest = list(self._as_named)
        for folder, count in Counter(path.parent for path in elsewhere.values()).most_common(1):
            if count > len(rest):
                rest += [path for path in elsewhere.values() if path.parent == folder]
        known = {*rest}
        others = [index for index, path in elsewhere.items() if path not in known]
        if not others:
            return []
        formats = Counter(map(_format, rest))
        unlike = [index for index in others if _format(elsewhere[index]) not in formats]
        if unlike:
            path = elsewhere[unlike[0]]
            log.warning(
                f"{len(unlike)} of {len(names)} images of {where} are missing; others of their "
                f"names are not taken, as they differ from the rest: {names[unlike[0]]!r} would be "
                f"{path} ({_format(path)}), the rest are {formats.most_common(1)[0][0]}"
            )
        return unlike

    def _named(self, name: str) -> Path | None:
        # Capture scripts on Windows write backslashes into their JSON.
        for spelling in dict.fromkeys((name, name.replace("\\", "/"))):
            for root in self._roots:
                base = Path(os.path.normpath(root / spelling))
                if leads_out(base, self.folder):
                    continue
                for ending in ("", *TRIED):
                    path = base.with_name(base.name + ending)
                    if os.path.isfile(path):  # not Path's, which raises for a name too long
                        return path
        return None

    def _by_its_end(self, name: str, taken: set[Path]) -> Path | None:
        parts = _parts(name)
        ranked: dict[int, list[Path]] = defaultdict(list)
        for path in self._by_stem[_stem(parts[-1])] if parts else ():
            if path not in taken:
                ranked[self._agreement(parts, path)].append(path)
        best = max(ranked, default=0)
        if best < self._tail or len(ranked[best]) > 1:
            return None
        return ranked[best][0]

    def _agreement(self, parts: tuple[str, ...], path: Path) -> int:
        """Number of last parts that a name and a path share, file names without endings.

        0 if only the file names agree and a folder of the path is one of OTHER_FOLDERS.
        """
        folders = path.relative_to(self.folder).parts[:-1]
        count = 1
        for part, folder in zip(reversed(parts[:-1]), reversed(folders), strict=False):
            if part != folder:
                break
            count += 1
        is_other = any(OTHER_FOLDERS.fullmatch(folder) for folder in folders)
        return 0 if count == 1 and is_other else count

    @cached_property
    def _by_stem(self) -> dict[str, list[Path]]:
        """All images in the scene's folder but hidden folders, by name without an ending."""
        found = defaultdict(list)
        for root, folders, names in os.walk(self.folder):
            folders[:] = sorted(folder for folder in folders if not folder.startswith("."))
            for name in sorted(names):
                if is_image(name):
                    found[_stem(name)].append(Path(root, name))
        return found


def _format(path: Path) -> str:
    """A image's size and channels, in words; raises InputError for a file that is no image."""
    header = inspect(path)
    return f"{header.width}x{header.height}, {'with' if header.has_alpha else 'without'} alpha"


def _parts(name: str) -> tuple[str, ...]:
    parts = PurePosixPath(name.replace("\\", "/")).parts
    return tuple(part for part in parts if part not in ("/", ".", ".."))


def _stem(name: str) -> str:
    endings = (*ENDINGS, *UNSUPPORTED)
    return name[: name.rindex(".")] if name.lower().endswith(endings) else name
