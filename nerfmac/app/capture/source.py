"""`Source`, the video or the folder of photos that a capture reads. Content hashes reveal identical
copies of photos and changes of the files. 360-degree images and videos, which are not perspective
images, are recognized by the file extension, the metadata, or the content."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from shlex import quote

import numpy as np
from PIL import Image

from nerfmac.app.capture.findings import RECORD, RefusedError
from nerfmac.app.capture.video import is_video
from nerfmac.app.scenes.depth_images import is_depth_map
from nerfmac.app.scenes.image_search import OTHER_FOLDERS
from nerfmac.app.scenes.images import is_image, is_unsupported, opened, unsupported
from nerfmac.app.scenes.masks import FOLDERS, masks_of, without_masks
from nerfmac.app.scenes.readers import BLENDER_FILES, refuse_known_poses
from nerfmac.app.scenes.readers.transforms import FILE_NAME
from nerfmac.common import InputError, counted, log, name_key, walk

RESULT_FILES = (FILE_NAME, BLENDER_FILES[0], RECORD, "checkpoint.safetensors")
"""Files in the folders of scenes, captures, and runs. Their images are not photos to capture."""
SYSTEM = (".", "@", "__")
"""First characters of the names of folders that systems create, such as @eaDir and __MACOSX."""
EXAMPLES = 3  # Maximum number of file names in a message.
PANORAMA_FILES = (".insv", ".insp", ".360")  # Of files of 360-degree cameras, in lower case.
TAGS = (b"GPano:ProjectionType", b"sv3d", b"SphericalVideo", b"GSpherical")
"""Phrases of the metadata of spherical photos (Photo Sphere XMP) and videos (Spherical Video V1 and
V2)."""
SEARCHED = 2**20  # Number of bytes at the beginning and at the end of a file that are searched.
REDUCED = (128, 64)  # Width and height in pixels of the reduced images that are compared.
MIN_CONTRAST = 5.0  # Minimum standard deviation of the gray values (0 to 255) of an edge column.
MAX_STEP, MAX_DIFFERENCE = 2.0, 0.6
"""Maximum difference of the left and right edges of a panorama, relative to the difference of
adjacent columns and to the difference of columns that are half a width apart."""


class Source:
    """Video, or folder of photos. The folder and its subfolders are searched once, except those
    that `_is_other` describes.

    Attributes:
        path: Video or folder.
        is_video: Whether `path` is a video.
        photos: Images in natural order of their paths, without masks next to their photos and depth
            maps.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.is_video = path, is_video(path)
        self._others: list[Path] = []  # Folders that are not searched.
        files, photos = [], set()
        for parent, folders, names in walk(path):
            below = [parent / name for name in folders if not name.startswith(SYSTEM)]
            others = [*filter(_is_other, below)]
            self._others += others
            folders[:] = [folder.name for folder in below if folder not in others]
            files += [parent / name for name in names]
            photos |= {parent / name for name in without_masks(names)}
        files.sort(key=lambda file: counted(str(file)))
        self._depths, self._videos = [*filter(is_depth_map, files)], [*filter(is_video, files)]
        self._unsupported = [file for file in files if is_unsupported(file.name)]
        photos.difference_update(self._depths)
        self.photos = [file for file in files if file in photos]

    def refuse_unsupported(self, *, estimate: bool = False) -> None:
        """Raise `InputError` if a file contains 360-degree images, if the camera poses of photos
        are known and `estimate` is False, or if a folder without photos contains images in an
        unsupported format, videos, or photos in folders that are not searched."""
        # ffmpeg and Pillow cannot read most files of 360-degree cameras.
        if self.path.suffix.lower() in PANORAMA_FILES and self.path.is_file():
            raise _refusal(self.path)
        if self.path.is_dir() and not estimate:
            refuse_known_poses(self.path, self.photos)
        if self.photos:
            return
        if self._unsupported:
            raise unsupported(self._unsupported[0], len(self._unsupported))
        if unused := self._unused():
            raise InputError(f"{self.path} contains no photos: {'; '.join(unused)}")

    def report_unused(self, chosen: Sequence[Path]) -> None:
        """Log the number of videos, of images in unsupported formats that the `chosen` photos do
        not replace, and of images in folders that are not searched."""
        stems = {name_key(path.stem) for path in chosen}
        skipped = [path for path in self._unsupported if name_key(path.stem) not in stems]
        if skipped:
            log.warning("%s; skipping them", unsupported(skipped[0], len(skipped)))
        for line in self._unused():
            log.warning("%s", line)

    def _unused(self) -> list[str]:
        videos, depths, lines = self._videos, self._depths, []
        if videos:
            many = f"{len(videos)} videos such as {videos[0]} are"
            use = f"to use a video, run `nerfmac capture {quote(str(videos[0]))}`"
            lines.append(f"{many if videos[1:] else f'{videos[0]} is'} not used; {use}")
        if depths:
            lines.append(f"{len(depths)} depth maps are not used, such as {depths[0]}")
        if results := [str(path) for path in self._others if _is_result(path)]:
            verb = "contain" if results[1:] else "contains"
            lines.append(f"{', '.join(results)} {verb} a scene or a run; to use it, pass its path")
        counts = {
            path: sum(is_image(name) for _, _, names in walk(path) for name in names)
            for path in self._others
            if path.name not in FOLDERS and not _is_result(path)
        }
        if shown := [f"{path} ({count})" for path, count in counts.items() if count]:
            lines.append(
                f"the images in {', '.join(shown)} are not used, because folders with such names "
                "usually contain other sizes, masks, or depth maps of images"
            )
        return lines

    @cached_property
    def digests(self) -> dict[str, str]:
        """Content hashes of the video, or of the photos and their masks, keyed by file path in the
        source folder."""
        root = self.path.parent if self.is_video else self.path
        masks = masks_of(self.photos, self.path)
        paths = [self.path] if self.is_video else [*self.photos, *masks.values()]
        names = [_key(path, root) for path in paths]
        with ThreadPoolExecutor() as pool:
            return dict(zip(names, pool.map(_digest, paths), strict=True))

    def without_copies(self) -> list[Path]:
        """Return the photos without identical copies, and log the number of copies. The file with
        the shortest name remains, because copies have names such as "a (1)" or "a - Copy"."""
        kept: dict[str, Path] = {}
        digest = {path: self.digests[_key(path, self.path)] for path in self.photos}
        for path in sorted(self.photos, key=lambda path: len(path.name)):
            kept.setdefault(digest[path], path)
        copies = [path for path in self.photos if kept[digest[path]] != path]
        if copies:
            first, original = copies[0], kept[digest[copies[0]]]
            log.warning(
                f"skipping {len(copies)} of {len(self.photos)} photos, because they are identical "
                f"copies of others, such as {first.relative_to(self.path)} of "
                f"{original.relative_to(self.path)}"
            )
        return [path for path in self.photos if path not in copies]

    def changes(self, before: object) -> str:
        """Describe which files were added, removed, or changed since the digests `before`."""
        known, now = before if isinstance(before, Mapping) else {}, self.digests
        groups = {
            "added": [name for name in now if name not in known],
            "removed": [name for name in known if name not in now],
            "changed": [name for name in now if name in known and now[name] != known[name]],
        }
        return ", ".join(_listed(names, verb) for verb, names in groups.items() if names)


def _is_other(folder: Path) -> bool:
    """Return whether a folder contains masks, depth maps, or other image sizes, judged by its name,
    or a scene, a capture, or a run."""
    return _is_result(folder) or OTHER_FOLDERS.fullmatch(folder.name) is not None


def _is_result(folder: Path) -> bool:
    return any((folder / name).is_file() for name in RESULT_FILES)


def _key(path: Path, root: Path) -> str:
    return Path(os.path.relpath(path, root)).as_posix()


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error


def _listed(names: Sequence[str], verb: str) -> str:
    shown = ", ".join(names[:EXAMPLES]) + ", ..." * (len(names) > EXAMPLES)
    return f"{len(names)} {verb} ({shown})"


def refuse_panoramas(source: Path, images: Sequence[Path]) -> None:
    """Raise `RefusedError` if most images of a capture are equirectangular.

    Args:
        source: Video, or folder of photos.
        images: Images of the capture. Their metadata may have been removed.

    Raises:
        RefusedError: If the video or most photos have spherical metadata, or if most images have
            the shape 2:1 and the same content at the left and right edges.
    """
    files = [source] if source.is_file() else list(images)
    is_tagged = 2 * sum(map(has_spherical_tag, files)) > len(files)
    if is_tagged or 2 * sum(map(is_panorama, images)) > len(images):
        raise _refusal(source)


def _refusal(path: Path) -> RefusedError:
    return RefusedError(
        f"{path} contains 360-degree images, but nerfmac requires perspective images; cut each "
        "panorama into perspective views, for example with the reframing of the camera's app, and "
        "capture these views"
    )


def has_spherical_tag(path: Path) -> bool:
    """Return whether the metadata of a photo or video declare a spherical projection."""
    with path.open("rb") as file:
        content = file.read(SEARCHED)
        file.seek(max(path.stat().st_size - SEARCHED, 0))
        content += file.read(SEARCHED)
    return any(tag in content for tag in TAGS)


def is_panorama(path: Path) -> bool:
    """Return whether an image has the shape 2:1 and continues from its right to its left edge."""
    with opened(path) as image:
        if image.width != 2 * image.height:
            return False
        gray = np.asarray(image.convert("L").resize(REDUCED, Image.Resampling.BOX), np.float64)
    edges = np.abs(gray[:, 0] - gray[:, -1]).mean()
    step = np.median(np.abs(np.diff(gray, axis=1)).mean(axis=0))
    half = np.median(np.abs(gray - np.roll(gray, REDUCED[0] // 2, axis=1)).mean(axis=0))
    has_content = min(gray[:, 0].std(), gray[:, -1].std()) > MIN_CONTRAST
    return bool(has_content and edges < min(MAX_STEP * step, MAX_DIFFERENCE * half))
