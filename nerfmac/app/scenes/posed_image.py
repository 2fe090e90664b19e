"""`PosedImage`, an image file of a scene with its camera intrinsics and pose."""

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
    """Image file with its header, name, camera intrinsics, mask, and pose.

    The pose (3, 4) is a camera-to-world matrix with OpenGL axes, in the coordinates of the scene
    files. If `is_upright` is True, the intrinsics belong to the image after applying the EXIF
    orientation. Otherwise, they belong to the image as stored.
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
        """Create a posed image with the intrinsics `lens` scaled to the image size.

        Some programs ignore the EXIF orientation. If only the image as stored has the aspect ratio
        of the intrinsics, the EXIF orientation is ignored. `where` is the scene file, for the error
        message. The default of `name` is the file name.
        """
        posed = cls(image, header, name or image.name, lens, pose)
        if has_aspect(lens, header.width, header.height):
            return posed.read(upright=True)
        if has_aspect(lens, *header.stored_size):
            return posed.read(upright=False)
        raise InputError(
            f"{image} has {header.width}x{header.height} pixels, but the camera intrinsics in "
            f"{where} are for {lens.width}x{lens.height}, which has another aspect ratio; use the "
            "images that the cameras were estimated from"
        )

    def read(self, upright: bool) -> Self:
        """Return a copy for reading the image upright or as stored, with scaled intrinsics."""
        size = self.header[:2] if upright else self.header.stored_size
        return self._replace(is_upright=upright, lens=self.lens.scaled(*size))

    @property
    def is_ambiguous(self) -> bool:
        """Whether the intrinsics match both the upright and the stored size of a rotated image."""
        both = self.header[:2], self.header.stored_size
        return self.header.orientation != 1 and all(has_aspect(self.lens, *size) for size in both)

    def placed(self, placement: Placement) -> Frame:
        """Return the frame with its pose in scene coordinates."""
        camera = Camera(self.lens, placement.apply(self.pose))
        return Frame(camera, self.image, self.name, is_upright=self.is_upright, mask=self.mask)


def headers_of(images: Sequence[Path]) -> list[Header]:
    """Read the headers of image files, in order."""
    with ThreadPoolExecutor() as pool:
        return list(pool.map(inspect, images))


def has_aspect(lens: Lens, width: int, height: int) -> bool:
    """Return whether the aspect ratios are equal, up to rounding to whole pixels."""
    # Halving an odd size loses up to a pixel per side, so aspect ratios may differ slightly.
    return abs(width * lens.height - height * lens.width) <= lens.width + lens.height
