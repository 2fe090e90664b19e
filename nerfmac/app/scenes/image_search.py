"""Search in the scene folder for the images that a scene file lists. Names with `..` or an absolute
path cannot refer to files outside the folder. Symbolic links can, because large images are often
stored on another disk; `load_scene` logs a warning about these links."""

import os
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path, PurePosixPath
from shlex import quote

from nerfmac.app.scenes import images
from nerfmac.common import InputError, leads_out, log, name_key, spelled, walk

OTHER_FOLDERS = re.compile(r"(mask|depth|normal|semantic|label).*|images_\d+", re.IGNORECASE)
"""Folders of masks, depth maps, or other image sizes, with the file names of the images."""


class ImageSearch:
    """Search for images by the names in a scene file.

    A name may have a wrong file extension or none, backslashes, or a path from another machine. If
    an image does not exist at its path, the search compares the last components of the path. At
    least `tail` components must match, one image must match better than all others, and no other
    name may refer to this image. Its size and channels must match another image, so that, for
    example, photos do not replace cut-out images. Names are relative to one of the folders `roots`,
    in order of preference, or to the scene folder.
    """

    def __init__(self, folder: Path, *, roots: Sequence[Path] = (), tail: int = 1) -> None:
        self.folder, self._roots, self._tail = folder, (*roots, folder), tail
        self._as_named: list[Path] = []

    def existing(self, names: Sequence[str], where: str) -> dict[int, Path]:
        """Return the path of each image that exists, keyed by the index of its name, and log
        warnings about images that are missing, or found at another path. `where` is the scene file,
        for messages."""
        named = {index: path for index, name in enumerate(names) if (path := self._named(name))}
        there = {i: path for i, path in named.items() if not images.is_unsupported(path.name)}
        self._as_named += there.values()
        elsewhere, taken = {}, {*there.values()}
        for index, name in enumerate(names):
            if index not in there and (path := self._by_its_end(name, taken)):
                elsewhere[index] = path
                taken.add(path)
        for index in self._unlike_the_others(elsewhere, names, where) if elsewhere else ():
            del elsewhere[index]
        found = dict(sorted({**there, **elsewhere}.items()))
        skipped = [path for index, path in named.items() if index not in found]
        if skipped and not found:
            raise images.unsupported(skipped[0], len(skipped))
        if skipped:
            log.warning("%s; skipping them", images.unsupported(skipped[0], len(skipped)))
        if elsewhere:
            first, path = next(iter(elsewhere.items()))
            moved = f"{len(elsewhere)} of {len(names)} images are not at the path in {where}"
            log.warning(f"{moved} and were found by file name: using {path} for {names[first]!r}")
        self._report_missing(found, names, len(skipped), where)
        return found

    def _report_missing(
        self, found: Mapping[int, Path], names: Sequence[str], skipped: int, where: str
    ) -> None:
        """Log a warning about missing images, or raise `InputError` if all images are missing."""
        gone = [name for index, name in enumerate(names) if index not in found]
        paths = {name: self.folder / name.replace("\\", "/") for name in gone}
        advice = ""
        if outside := [name for name in gone if leads_out(paths[name], self.folder)]:
            target = Path(os.path.normpath(self.folder.absolute() / outside[0])).parent
            link = f"ln -s {quote(str(target))} {quote(str(self.folder / target.name))}"
            advice = (
                f"the paths of {len(outside)} of them, such as {outside[0]!r}, lead out of this "
                "folder, and nerfmac reads such images only through a symbolic link in the folder: "
                f"run `{link}`"
            )
        if not found:
            raise InputError(
                f"none of the {len(names)} images of {where} exist in {self.folder}; "
                + (advice or f"the first one is {names[0]!r}; copy the images there")
            )
        if missing := len(gone) - skipped:
            count = f"{missing} of {len(names)} images of {where} do not exist"
            log.warning(f"{count}; using the other {len(found)}{'; ' * bool(advice)}{advice}")

    def _unlike_the_others(
        self, elsewhere: Mapping[int, Path], names: Sequence[str], where: str
    ) -> list[int]:
        """Return the indices of the images in `elsewhere` whose format matches no known image, and
        log a warning about these images.

        The format is the size and the kind of channels. An image is known if it was found at its
        listed path. If one folder contains more images of `elsewhere` than there are known images,
        the images in that folder also count as known.
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
                f"{len(unlike)} of {len(names)} images of {where} do not exist; files with the "
                f"same names are ignored because their format differs: {names[unlike[0]]!r} could "
                f"be {path} ({_format(path)}), but the other images are "
                f"{formats.most_common(1)[0][0]}"
            )
        return unlike

    def _named(self, name: str) -> Path | None:
        # Capture scripts on Windows write backslashes into their JSON.
        for spelling in dict.fromkeys((name, name.replace("\\", "/"))):
            for root in self._roots:
                base = Path(os.path.normpath(root / spelling))
                if leads_out(base, self.folder):
                    continue
                for extension in ("", *images.TRIED):
                    path = spelled(base.with_name(base.name + extension))
                    if os.path.isfile(path):  # Path.is_file fails for names that are too long.
                        return path
        return None

    def _by_its_end(self, name: str, taken: set[Path]) -> Path | None:
        parts = _parts(name)
        ranked: dict[int, list[Path]] = defaultdict(list)
        for path in self._by_stem[_stem(parts[-1])] if parts else ():
            if path not in taken:
                ranked[self._agreement(parts, path)].append(path)
        best = max(ranked, default=0)
        return None if best < self._tail or len(ranked[best]) > 1 else ranked[best][0]

    def _agreement(self, parts: tuple[str, ...], path: Path) -> int:
        """Count the path components at the end that a name and a path have in common, ignoring file
        extensions. If a folder of the path is in OTHER_FOLDERS and not in the name, the result is
        0."""
        folders = path.relative_to(self.folder).parts[:-1]
        count = 1
        for part, folder in zip(reversed(parts[:-1]), reversed(folders), strict=False):
            if name_key(part) != name_key(folder):
                break
            count += 1
        is_other = any(OTHER_FOLDERS.fullmatch(folder) for folder in {*folders}.difference(parts))
        return 0 if is_other else count

    @cached_property
    def _by_stem(self) -> dict[str, list[Path]]:
        """All images in the scene folder, keyed by file name without extension, case, and Unicode
        normalization. Images in hidden folders are excluded."""
        found = defaultdict(list)
        for root, folders, names in walk(self.folder):
            folders[:] = [folder for folder in folders if not folder.startswith(".")]
            for name in names:
                if images.is_image(name):
                    found[_stem(name)].append(root / name)
        return found


def _format(path: Path) -> str:
    header = images.inspect(path)
    color, alpha = "gray" if header.is_gray else "color", "with" if header.has_alpha else "without"
    return f"{header.width}x{header.height}, {color} {alpha} alpha"


def _parts(name: str) -> tuple[str, ...]:
    parts = PurePosixPath(name.replace("\\", "/")).parts
    return tuple(part for part in parts if part not in ("/", ".", ".."))


def _stem(name: str) -> str:
    extensions = (*images.EXTENSIONS, *images.UNSUPPORTED)
    stem = name[: name.rindex(".")] if name.lower().endswith(extensions) else name
    return name_key(stem)
