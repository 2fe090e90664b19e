"""`SceneOptions`, the options for loading a scene. A run stores them to load the scene again."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from nerfmac.common import checks
from nerfmac.common.checks import InputError
from nerfmac.common.files import user_path
from nerfmac.geometry.placement import Direction

Split = int | float | tuple[str, ...] | Literal["none"]
"""Held-out views: N for every Nth view, a fraction of the views, view names, or "none"."""

GivenSplit = str | float | os.PathLike[str] | Sequence[str] | None
"""Type of the `split` argument of `load_scene`, which `split_of` parses."""


MAX_EXTENT = 128.0
"""Maximum side length of the scene cube in scene units, as `aabb_scale` in instant-ngp."""
SPLITS = "a number N for every Nth view, a fraction such as 0.1, none, or a file with view names"
UPS = "x, y, z, one of these with a minus sign, three numbers such as 0,0.2,1, or auto"
AXES: dict[str, Direction] = {"x": (1.0, 0.0, 0.0), "y": (0.0, 1.0, 0.0), "z": (0.0, 0.0, 1.0)}


@dataclass(frozen=True)
class SceneOptions:
    """Arguments of `load_scene` except the path, in parsed form. `up` is a unit vector."""

    split: Split | None = None
    extent: float | None = None
    up: Direction | None = None
    downscale: int = 1
    max_images: int | None = None
    masks: bool = True

    @classmethod
    def of(
        cls, split: GivenSplit = None, up: str | Sequence[float] | None = None, **others: Any
    ) -> SceneOptions:
        """Parse the arguments of `load_scene`."""
        return cls(split=split_of(split), up=up_of(up), **others)

    def __post_init__(self) -> None:
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
        checks.number("downscale", self.downscale, low=1, whole=True)
        checks.optional_number("max_images", self.max_images, low=1, whole=True)


DEFAULTS = SceneOptions()


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
        vector = np.array([float(number) for number in numbers])
    except (TypeError, ValueError):
        vector = np.zeros(0)
    length = float(np.linalg.norm(vector))
    if vector.shape != (3,) or not 0 < length < checks.LARGEST:
        raise InputError(f"up is {given!r}; expected {UPS}")
    x, y, z = (vector / length).tolist()
    return x, y, z


def described(split: Split | None) -> str:
    """Return a short description of the held-out views, such as "every 8th view"."""
    if split is None:
        return "from the scene files"
    if isinstance(split, tuple):
        return f"{len(split)} by name"
    if isinstance(split, float):
        return f"{split:g} of the views"
    return "none" if split == "none" else f"every {split}th view"
