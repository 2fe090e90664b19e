"""`ParsedScene`: the record that every reader makes of a scene's files, in their coordinates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from nerfmac.common.checks import InputError
from nerfmac.geometry.cameras import Camera
from nerfmac.geometry.lenses import Lens
from nerfmac.scenes.options import Direction
from nerfmac.scenes.pictures import Header, inspect
from nerfmac.scenes.placement import Placement
from nerfmac.scenes.scene import Frame

Array = npt.NDArray[np.float64]


class PosedPicture(NamedTuple):
    """A picture's file, header and name, its lens, and its camera-to-file pose (3, 4), OpenGL axes.

    The lens is for the picture's size: upright by EXIF, or as it is stored unless `is_upright`.
    """

    picture: Path
    header: Header
    name: str
    lens: Lens
    pose: Array
    is_upright: bool = True
    mask: Path | None = None

    @classmethod
    def of(
        cls, picture: Path, header: Header, *, lens: Lens, pose: Array, where: str, name: str = ""
    ) -> Self:
        """Return the picture with its lens scaled to its size; `name` is by default the file's.

        Some programs ignore EXIF's orientation: if only the picture as it is stored has the lens's
        aspect ratio, that is taken. Raises InputError that names `where` if neither has.
        """
        name = name or picture.name
        if _has_aspect(lens, header.width, header.height):
            return cls(picture, header, name, lens.scaled(header.width, header.height), pose)
        if header.is_turned and _has_aspect(lens, header.height, header.width):
            lens = lens.scaled(header.height, header.width)
            return cls(picture, header, name, lens, pose, is_upright=False)
        raise InputError(
            f"{picture} is {header.width}x{header.height} pixels but {where} "
            f"has a lens for {lens.width}x{lens.height}; expected the same aspect ratio: take "
            "the pictures that the cameras were estimated from"
        )

    def placed(self, placement: Placement) -> Frame:
        """Return the frame with its pose in scene space."""
        camera = Camera(self.lens, placement.apply(self.pose))
        return Frame(camera, self.picture, self.name, is_upright=self.is_upright, mask=self.mask)


class ParsedScene(NamedTuple):
    """The pictures, cameras and points of a scene's files, in the coordinates of these files.

    source      the file or folder that messages name
    folder      its name is the scene's
    up          direction to the sky; None if the coordinates mean nothing: the scene is levelled
    points      sparse points (n, 3), if the files have any
    placement   if the files have one; else it is fitted to the cameras and points
    splits      indices of `pictures` by split; None if the files have no splits
    """

    source: str
    folder: Path
    pictures: Sequence[PosedPicture]
    up: Direction | None = None
    points: Array | None = None
    placement: Placement | None = None
    splits: Mapping[str, Sequence[int]] | None = None


def headers_of(pictures: Sequence[Path]) -> list[Header]:
    """Read the headers of picture files, in order; raises InputError for one that is no picture."""
    with ThreadPoolExecutor() as pool:
        return list(pool.map(inspect, pictures))


def _has_aspect(lens: Lens, width: int, height: int) -> bool:
    # Halving an odd size loses up to a pixel on either side, so the aspects may differ a little.
    return abs(width * lens.height - height * lens.width) <= lens.width + lens.height
