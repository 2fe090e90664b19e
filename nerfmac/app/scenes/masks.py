"""Masks: images that mark the pixels of photos to exclude from training and evaluation.

A frame can specify its mask (`mask_path` of nerfstudio). If a frame does not specify a mask,
nerfmac looks for a mask file. For example, the mask of `images/front/a.jpg` may be located at these
paths:

- In a folder `masks` or `mask` next to the photo or to one of its parent folders, the mask is named
  `a.jpg.png` (COLMAP), `a.jpg`, `a.png`, `a_mask.png`, or `a.mask.png`. The mask is located in the
  folder itself or in the same subfolder as the photo.
- Next to the photo, the mask is named `dynamic_mask_a.png` (instant-ngp), `a_mask.png`, or
  `a.mask.png`.

Black pixels of a mask are excluded. Masks of instant-ngp are inverted: only their black pixels are
used.
"""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from nerfmac.app.scenes.images import INVERTED, TRIED, is_image
from nerfmac.app.scenes.parsed_scene import PosedImage
from nerfmac.common import InputError, log, name_key, spelled

FOLDERS = ("masks", "mask")
LIKE_A_MASK = re.compile(r"(^|[^a-z])masks?([^a-z]|$)|\.alpha\.", re.IGNORECASE)
"""Names of folders and files that look like masks."""


def masks_of_images(splits: Mapping[str, Sequence[PosedImage]], root: Path) -> dict[Path, Path]:
    """Return the mask of each photo in the splits that has one, and report the masks. Masks that
    are not specified are found by name."""
    images = [image for part in splits.values() for image in part]
    named = {image.photo.path: image.mask for image in images if image.mask}
    for image in images:
        if image.mask and not os.path.isfile(image.mask):
            missing = f"the mask {image.mask} of {image.name} does not exist"
            raise InputError(f"{missing}; add it, or use --no-masks to train on whole images")
    photos = [image.photo.path for image in images]
    found = masks_of(photos, root) | named
    report_masks(found, photos, root)
    return found


def masks_of(photos: Iterable[Path], root: Path) -> dict[Path, Path]:
    """Find the masks of photos by their file names. Photos without a mask are omitted from the
    result. A mask that matches several photos is ignored. For example, a mask in a folder without
    subfolders matches all photos with the same file name."""
    is_folder = cache(os.path.isdir)
    found, known = {}, dict.fromkeys(photos)
    for photo in known:
        for candidate in _candidates(photo, root, is_folder):
            mask = spelled(candidate)
            if os.path.isfile(mask) and mask not in known:
                found[photo] = mask
                break
    uses = Counter(found.values())
    return {photo: mask for photo, mask in found.items() if uses[mask] == 1}


def report_masks(found: Mapping[Path, Path], photos: Sequence[Path], root: Path) -> None:
    """Log how many photos have a mask, and warn about unused masks. An unused mask is a file in
    `root` or its subfolders with a name like a mask that is used neither as a mask nor as a
    photo."""
    if found:
        first = next(iter(found.values()))
        kinds = {
            "non-black" if mask.name.startswith(INVERTED) else "black" for mask in found.values()
        }
        count = f"{len(found)} of {len(set(photos))} images have a mask, such as {first}"
        log.info(f"{count}; {' or '.join(sorted(kinds))} pixels are excluded")
    used = {os.path.realpath(path) for path in (*found.values(), *photos)}
    unused = [path for path in _like_masks(root) if os.path.realpath(path) not in used]
    if unused:
        log.warning(
            f"{len(unused)} files look like masks, such as {unused[0]}, but match no photo and are "
            "not used; a mask must have the photo's name and subfolder in a folder masks, such as "
            "masks/front/0001.jpg.png for images/front/0001.jpg"
        )


def without_masks(names: Iterable[str]) -> list[str]:
    """Return the names of the images in `names` that are not masks of other images in `names`."""
    keys = {name: name_key(name) for name in filter(is_image, names)}
    stems = {Path(key).stem for key in keys.values()}
    masks = {mask for stem in (*stems, *keys.values()) for mask in _mask_stems(stem)}
    masks |= {f"{stem}.alpha" for stem in stems}
    return [name for name, key in keys.items() if Path(key).stem not in masks]


def _mask_stems(stem: str) -> tuple[str, ...]:
    """Return the stems of masks that are next to a photo with this stem."""
    return f"{INVERTED}{stem}", f"{stem}_mask", f"{stem}.mask"


def _candidates(photo: Path, root: Path, is_folder: Callable[[Path], bool]) -> Iterator[Path]:
    """Yield the possible paths of a photo's mask, in the order of preference."""
    adjacent = [f"{stem}.png" for stem in _mask_stems(photo.stem)]
    yield from (photo.with_name(name) for name in adjacent)
    names = dict.fromkeys(
        (
            *(f"{photo.name}.png", photo.name),
            *(f"{photo.stem}{extension}" for extension in TRIED),
            *(*adjacent, f"{photo.name}.mask.png"),
        )
    )
    real_root = os.path.realpath(root)
    parents = list(map(os.path.realpath, photo.parents))
    folders = [number for number, parent in enumerate(parents) if parent == real_root]
    for folder in photo.parents[: max([1, *folders]) + 1]:
        below = photo.parent.relative_to(folder).parts
        for name in FOLDERS:
            for skipped in range(len(below) + 1):
                mask_folder = folder.joinpath(name, *below[skipped:])
                if is_folder(mask_folder):
                    yield from (mask_folder / file_name for file_name in names)


def _like_masks(root: Path) -> list[Path]:
    """Find image files under `root` with a name or a folder name that looks like a mask."""
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
