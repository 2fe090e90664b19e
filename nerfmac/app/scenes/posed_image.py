"""`PosedImage`: an image file of a scene with its lens and its camera's pose."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from nerfmac.app.scenes.images import Header, inspect
from nerfmac.app.scenes.scene import Frame
from nerfmac.common.checks import InputError
from nerfmac.geometry.cameras import Camera
from nerfmac.geometry.lenses import Lens
from nerfmac.geometry.placement import Placement

Array = npt.NDArray[np.float64]


class PosedImage(NamedTuple):
    """A image's file, header, name, lens and mask, with its camera's pose.

    The camera-to-file pose (3, 4) has OpenGL axes. The lens fits the image as EXIF turns it if
    `is_upright`, else the image as stored.
    """

    image: Path
    header: Header
    name: str
    lens: Lens
    pose: Array
    is_upright: bool = True
    mask: Path | None = None

    @classmethod
    def of(
        cls, image: Path, header: Header, *, lens: Lens, pose: Array, where: str, name: str = ""
    ) -> Self:
        """Return the image with its lens scaled to its size; `name` is by default the file's.

        Some programs ignore EXIF's orientation: if only the image as it is stored has the lens's
        aspect ratio, its pixels stay unturned. Raises InputError naming `where` if neither has.
        """
        posed = cls(image, header, name or image.name, lens, pose)
        if has_aspect(lens, header.width, header.height):
            return posed.read(upright=True)
        if has_aspect(lens, *header.stored_size):
            return posed.read(upright=False)
        raise InputError(
            f"{image} is {header.width}x{header.height} pixels but {where} "
            f"has a lens for {lens.width}x{lens.height}; expected the same aspect ratio: take "
            "the images that the cameras were estimated from"
        )

    def read(self, upright: bool) -> Self:
        """Return the image turned by EXIF if `upright`, else as stored; its lens is scaled."""
        size = self.header[:2] if upright else self.header.stored_size
        return self._replace(is_upright=upright, lens=self.lens.scaled(*size))

    @property
    def is_ambiguous(self) -> bool:
        """Whether the lens fits the image as EXIF turns it and as stored, and these differ."""
        both = self.header[:2], self.header.stored_size
        return self.header.orientation != 1 and all(has_aspect(self.lens, *size) for size in both)

    def placed(self, placement: Placement) -> Frame:
        """Return the frame with its pose in scene space."""
        camera = Camera(self.lens, placement.apply(self.pose))
        return Frame(camera, self.image, self.name, is_upright=self.is_upright, mask=self.mask)


def headers_of(images: Sequence[Path]) -> list[Header]:
    """Read the headers of image files, in order; raises InputError for one that is no image."""
    with ThreadPoolExecutor() as pool:
        return list(pool.map(inspect, images))


def has_aspect(lens: Lens, width: int, height: int) -> bool:
    """Return whether the lens's image has the aspect ratio of one of `width` x `height`."""
    # Halving an odd size loses up to a pixel on either side, so the aspects may differ a little.
    return abs(width * lens.height - height * lens.width) <= lens.width + lens.height
