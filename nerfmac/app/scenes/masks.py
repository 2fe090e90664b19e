"""Masks: images that say which pixels of a photo are ignored.

A mask is the file that a frame names (nerfstudio's `mask_path`). Otherwise its name follows from
that of its photo `images/front/a.jpg`:

- in a folder `masks` or `mask` next to the photo or to one of its folders, `a.jpg.png` (COLMAP),
  `a.jpg`, `a.png`, `a_mask.png`, or `a.mask.png`, in the same subfolder or in none;
- next to the photo, `dynamic_mask_a.png` (instant-ngp), `a_mask.png`, or `a.mask.png`.

Black pixels of a mask are ignored. In instant-ngp's masks, black pixels are kept instead.
"""

from __future__ import annotations

import logging
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from nerfmac.app.scenes.images import INVERTED, TRIED, is_image
from nerfmac.app.scenes.scene import Frame
from nerfmac.common.checks import InputError
from nerfmac.common.files import leads_out
from nerfmac.common.json_reader import Fields

FOLDERS, KEY = ("masks", "mask"), "mask_path"
LIKE_A_MASK = re.compile(r"(^|[^a-z])masks?([^a-z]|$)|\.alpha\.", re.IGNORECASE)
"""Names of folders and files that look like those of masks."""

log = logging.getLogger("nerfmac")


def mask_of(frame: Fields, folder: Path) -> Path | None:
    """Return the path of the mask that a JSON file's frame names; None if it names none.

    `masked` checks that it exists. Raises InputError if it lies outside `folder`.
    """
    if not frame.values.get(KEY):
        return None
    path = Path(os.path.normpath(folder / frame.text(KEY).replace("\\", "/")))
    if leads_out(path, folder):
        raise frame.wrong(KEY, f"a file in {folder}")
    return path


def masked(splits: Mapping[str, tuple[Frame, ...]], root: Path) -> dict[str, tuple[Frame, ...]]:
    """Return the frames of all splits with the paths of their masks, named or found.

    `root` is the scene's folder. Raises InputError if a named mask does not exist.
    """
    frames = [frame for part in splits.values() for frame in part]
    for frame in frames:
        if frame.mask and not os.path.isfile(frame.mask):
            raise InputError(
                f"the mask {frame.mask} of {frame.name} does not exist; put it there, or use "
                "--no-masks to train on whole images"
            )
    photos = [frame.image for frame in frames if isinstance(frame.image, Path)]
    named = {f.image: f.mask for f in frames if f.mask and isinstance(f.image, Path)}
    found = masks_of(photos, root) | named
    report_masks(found, photos, root)
    return {
        name: tuple(
            replace(frame, mask=found.get(frame.image)) if isinstance(frame.image, Path) else frame
            for frame in part
        )
        for name, part in splits.items()
    }


def masks_of(photos: Iterable[Path], root: Path) -> dict[Path, Path]:
    """Return the masks by photo, without photos that have none. `root` holds photos and masks.

    Masks that fit several photos, as a flat folder for photos whose names repeat, are left out.
    """
    is_folder = cache(os.path.isdir)
    found, known = {}, dict.fromkeys(photos)
    for photo in known:
        for candidate in _candidates(photo, root):
            is_there = is_folder(candidate.parent) and os.path.isfile(candidate)
            if is_there and candidate not in known:
                found[photo] = candidate
                break
    uses = Counter(found.values())
    return {photo: mask for photo, mask in found.items() if uses[mask] == 1}


def report_masks(found: Mapping[Path, Path], photos: Sequence[Path], root: Path) -> None:
    """Log how many `photos` have one of the masks `found`, and warn of unused masks.

    Unused masks are files under `root` that look like masks, and are neither used nor photos.
    """
    if found:
        first = next(iter(found.values()))
        log.info(
            f"{len(found)} of {len(set(photos))} images have a mask, such as {first}: "
            f"{_ignored(found.values())} pixels are ignored"
        )
    used = {os.path.realpath(path) for path in (*found.values(), *photos)}
    unused = [path for path in _like_masks(root) if os.path.realpath(path) not in used]
    if unused:
        log.warning(
            f"{len(unused)} files look like masks, such as {unused[0]}, and are not used, as they "
            "fit no photo: expected the photo's name and subfolder in a folder masks, as in "
            "masks/front/0001.jpg.png for images/front/0001.jpg"
        )


def without_masks(names: Sequence[str]) -> list[str]:
    """Return the `names` of a folder's images without those of masks for others of them."""
    stems = {Path(name).stem for name in names}
    suffixes = {*_mask_stems(stems), *_mask_stems(names), *(f"{stem}.alpha" for stem in stems)}
    return [name for name in names if Path(name).stem not in suffixes]


def _ignored(masks: Iterable[Path]) -> str:
    kinds = {"non-black" if mask.name.startswith(INVERTED) else "black" for mask in masks}
    return " or ".join(sorted(kinds))


def _mask_stems(stems: Iterable[str]) -> set[str]:
    """Stems of the masks of photos with these `stems` that are next to the photos."""
    forms = f"{INVERTED}{{}}", "{}_mask", "{}.mask"
    return {form.format(stem) for stem in stems for form in forms}


def _candidates(photo: Path, root: Path) -> Iterator[Path]:
    """Paths that the mask of a photo may have, in the order in which they are tried."""
    own = (f"{INVERTED}{photo.stem}.png", f"{photo.stem}_mask.png", f"{photo.stem}.mask.png")
    yield from (photo.with_name(name) for name in own)
    names = dict.fromkeys(
        (
            *(f"{photo.name}.png", photo.name, *(f"{photo.stem}{ending}" for ending in TRIED)),
            *(*own, f"{photo.name}.mask.png"),
        )
    )
    at = os.path.realpath(root)
    folders = [
        number for number, folder in enumerate(photo.parents) if os.path.realpath(folder) == at
    ]
    for folder in photo.parents[: max([1, *folders]) + 1]:
        below = photo.parent.relative_to(folder).parts
        for name in FOLDERS:
            for skipped in range(len(below) + 1):
                place = folder.joinpath(name, *below[skipped:])
                yield from (place / each for each in names)


def _like_masks(root: Path) -> list[Path]:
    """Image files under `root` whose name or folder looks like that of masks."""
    found = []
    for parent, folders, names in os.walk(root):
        folders[:] = sorted(folder for folder in folders if not folder.startswith("."))
        inside = any(map(LIKE_A_MASK.search, Path(parent).relative_to(root).parts))
        found += [
            Path(parent, name)
            for name in sorted(filter(is_image, names))
            if inside or LIKE_A_MASK.search(name)
        ]
    return found
