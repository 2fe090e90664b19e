"""`SceneOptions`, the options for loading a scene, and `CaptureOptions`, the options for estimating
camera poses. The documentation of an option is also its help text on the command line."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from nerfmac.common import InputError, checks, user_path
from nerfmac.config.settings import Range, Settings, Written

Direction = tuple[float, float, float]

Split = int | float | tuple[str, ...] | Literal["none"]
"""Held-out views: N for every Nth view, a fraction of the views, view names, or "none"."""

GivenSplit = str | float | os.PathLike[str] | Sequence[str] | None
"""Type of the `split` argument of `load_scene`, which `split_of` parses."""

MAX_EXTENT = 128.0
"""Maximum side length of the scene cube in scene units, as `aabb_scale` in instant-ngp."""
SPLITS = "a number N for every Nth view, a fraction such as 0.1, none, or a file with view names"
UPS = "x, y, z, one of these with a minus sign, three numbers such as 0,0.2,1, or auto"
AXES: dict[str, Direction] = {"x": (1.0, 0.0, 0.0), "y": (0.0, 1.0, 0.0), "z": (0.0, 0.0, 1.0)}
MIN_IMAGES = 3  # Minimum number of images that a capture requires.
MIN_35MM, MAX_35MM = 4.0, 2000.0
"""Smallest and largest 35 mm equivalent focal length in millimeters."""


def check_extent(extent: float) -> None:
    """Raise `InputError` unless `extent`, in scene units, is in (0, 128]."""
    checks.number("extent", extent)
    if not 0 < extent <= MAX_EXTENT:
        raise InputError(f"extent is {extent:g}; expected a value above 0 and up to {MAX_EXTENT:g}")


def split_of(given: GivenSplit) -> Split | None:
    """Parse the `split` argument of `load_scene`. Empty lines and lines that start with # in a file
    of view names are ignored."""
    if given is None or isinstance(given, int | float):
        return given
    if not isinstance(given, str | os.PathLike):
        return tuple(dict.fromkeys(given))
    text = os.fspath(given)
    if text == "none":
        return "none"
    for number in (int, float):
        with suppress(ValueError):
            return number(text)
    path = user_path(text)
    if not path.is_file():
        raise InputError(f"split is {str(path)!r}, which is not a file; expected {SPLITS}")
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines()]
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path} as a list of view names: {error}") from error
    names = tuple(dict.fromkeys(line for line in lines if line and not line.startswith("#")))
    if not names:
        raise InputError(f"{path} contains no view names; expected one name per line")
    return names


def up_of(given: str | Sequence[float] | None) -> Direction | None:
    """Parse an up direction, such as "-y" or three numbers, to a unit vector in the coordinates of
    the input scene. The result is None for "auto"."""
    if given is None or given == "auto":
        return None
    if isinstance(given, str):
        sign, axis = (-1.0, given[1:]) if given.startswith("-") else (1.0, given)
        if axis in AXES:
            x, y, z = AXES[axis]
            return sign * x, sign * y, sign * z
    numbers = given.split(",") if isinstance(given, str) else given
    try:
        x, y, z = (float(number) for number in numbers)
    except (TypeError, ValueError):
        x = y = z = math.nan
    length = math.hypot(x, y, z)
    if not 0 < length < checks.LARGEST:
        raise InputError(f"up is {given!r}; expected {UPS}")
    return x / length, y / length, z / length


def described(split: Split | None) -> str:
    """Return a short description of the held-out views, such as "every 8th view"."""
    if split is None:
        return "from the scene files"
    if isinstance(split, tuple):
        return f"{len(split)} by name"
    if isinstance(split, float):
        return f"{split:g} of the views"
    return "none" if split == "none" else f"every {split}th view"


@dataclass(frozen=True)
class SceneOptions(Settings):
    """Options that control how a scene is loaded, in parsed form. A run stores them to load the
    scene again."""

    split: Annotated[Split | None, Written("N|FRACTION|none|FILE", split_of)] = None
    """Views to hold out for testing: every Nth training view, a fraction such as 0.1, none, or the
    views listed in FILE, one per line. [default: the test split of the scene, otherwise every 8th
    view, or none if the scene has fewer than 8 views]"""
    extent: Annotated[float | None, Written("SIDE")] = None
    """Side length of the scene cube in scene units. [default: the value in the scene file,
    otherwise an estimate]"""
    up: Annotated[Direction | None, Written("AXIS|X,Y,Z", up_of)] = None
    """Up direction in the coordinates of the input scene: an axis such as z or -y, or three
    numbers. [default: auto, the value in the scene file, otherwise an estimate]"""
    downscale: Annotated[int, Range(1), Written("N")] = 1
    """Divide the width and height of the images by N."""
    max_images: Annotated[int | None, Range(1), Written("N")] = None
    """Use at most N evenly spaced views of each split. [default: all views]"""
    masks: bool = True
    """Exclude masked pixels from training and evaluation. With --no-masks, nerfmac ignores all
    masks."""
    depth: bool = True
    """Use the depth images of the scene. With --no-depth, nerfmac ignores all depth images."""

    @classmethod
    def of(
        cls, split: GivenSplit = None, up: str | Sequence[float] | None = None, **others: Any
    ) -> SceneOptions:
        """Parse the arguments of `load_scene`."""
        return cls(split=split_of(split), up=up_of(up), **others)

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.split, float):
            checks.number("split", self.split)
            if not 0 < self.split < 1:
                raise InputError(f"split is {self.split:g}; expected {SPLITS}")
        elif isinstance(self.split, int):
            checks.number("split", self.split, whole=True)
            if self.split < 1:
                raise InputError(f"split is {self.split}; expected {SPLITS}")
        elif self.split is not None and not self.split:
            raise InputError("split is an empty list of views; list at least one view name")
        if self.extent is not None:
            check_extent(self.extent)


DEFAULTS = SceneOptions()


@dataclass(frozen=True)
class CaptureOptions(Settings):
    """Options for estimating the camera poses of photos or video frames."""

    longest_side: Annotated[int, Range(64), Written("PIXELS")] = 1920
    """Maximum length of the longer image side in pixels. Larger images are downscaled."""
    frames: Annotated[int | None, Range(MIN_IMAGES), Written("N")] = None
    """Approximate number of frames to extract from a video. [default: 50 to 200, depending on how
    much the camera moves]"""
    matching: Literal["auto", "sequential", "exhaustive", "similar"] = "auto"
    """Pairs of images to match. exhaustive matches all pairs and is slow for hundreds of images.
    sequential matches each image with the next 10 images in name order, and then with images from
    nearby cameras. similar matches each image with the 25 images that look most similar. auto uses
    sequential for videos, and for photos if their names follow the order of capture. For other
    photos, and if sequential registers too few images, auto uses similar."""
    focal_35mm: Annotated[float | None, Range(MIN_35MM, MAX_35MM), Written("MM")] = None
    """35 mm equivalent focal length of all images in millimeters. The main camera of most phones
    has an equivalent focal length of 24 to 28 mm. [default: the value in the EXIF data; if the EXIF
    data contains no focal length, nerfmac compares several values]"""
    estimate: bool = False
    """Estimate the camera poses even if camera poses are stored with the photos."""
    accept_poses: bool = False
    """Write the scene even if nerfmac finds that the camera poses are probably wrong."""
