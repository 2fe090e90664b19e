"""A photograph whose camera a file knows: what a reader has before the scene is placed."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from nerfmac.common.checks import LARGEST, InputError
from nerfmac.geometry.cameras import Camera
from nerfmac.geometry.lenses import Lens
from nerfmac.scenes.options import Direction, SceneOptions
from nerfmac.scenes.pictures import Header, inspect, is_cut_out
from nerfmac.scenes.placement import Placement, fit
from nerfmac.scenes.scene import Frame, Scene
from nerfmac.scenes.splits import Splits, hold_out, usual_split
from nerfmac.scenes.upright import UP, levelling

log = logging.getLogger("nerfmac")

RIGID_WITHIN = 1e-2
"""How far R^T R may be from 1. A smaller difference is rounding, and is removed."""


class Shot(NamedTuple):
    """A picture's file and name, its lens, and its camera-to-file pose (3, 4) with OpenGL's axes.

    The lens is for the picture's size: upright by EXIF, or as it is stored unless `is_upright`.
    """

    picture: Path
    name: str
    lens: Lens
    pose: npt.NDArray[np.float64]
    is_upright: bool = True
    mask: Path | None = None

    @classmethod
    def of(
        cls, picture: Path, header: Header, lens: Lens, pose: npt.NDArray[np.float64], where: str
    ) -> Self:
        """The shot, its name that of the file, with its lens scaled to the picture's size.

        Some programs do not heed EXIF's orientation: where only the picture as it is stored has the
        aspect of the lens, that is taken. Raises InputError that names `where` if neither has.
        """
        if _has_aspect(lens, header.width, header.height):
            return cls(picture, picture.name, lens.scaled(header.width, header.height), pose)
        if header.is_turned and _has_aspect(lens, header.height, header.width):
            lens = lens.scaled(header.height, header.width)
            return cls(picture, picture.name, lens, pose, is_upright=False)
        raise InputError(
            f"{picture} is {header.width}x{header.height} pixels but {where} "
            f"has a lens for {lens.width}x{lens.height}; expected that shape"
        )

    def placed(self, placement: Placement) -> Frame:
        """The frame, its pose moved into the scene."""
        camera = Camera(self.lens, placement.apply(self.pose))
        return Frame(camera, self.picture, self.name, is_upright=self.is_upright, mask=self.mask)


def _has_aspect(lens: Lens, width: int, height: int) -> bool:
    # Halving an odd size loses up to a pixel on either side, so the aspects may differ a little.
    return abs(width * lens.height - height * lens.width) <= lens.width + lens.height


def say_what_is_turned(shots: Sequence[Shot], where: str) -> None:
    """Say in one line how many pictures are taken as they are stored, if any."""
    turned = [shot.picture for shot in shots if not shot.is_upright]
    if turned:
        log.warning(
            "the lenses of %s are for %d of %d pictures as they are stored, before EXIF turns "
            "them: they are left so, such as %s",
            *(where, len(turned), len(shots), turned[0]),
        )


def levelled(
    folder: Path,
    shots: Sequence[Shot],
    *,
    headers: Sequence[Header],
    points: npt.NDArray[np.float64] | None,
    options: SceneOptions,
) -> Scene:
    """The scene of `shots` in coordinates of no meaning: centred, scaled, and turned so z is up.

    `headers` are the pictures', in order, and `points` (n, 3) places of what the pictures show.
    Views are held out as `options` say, or as in a capture; and they may say which way is up in
    those coordinates. Raises InputError if none is left to train on.
    """
    is_object = are_cut_out([shot.picture for shot in shots], headers)
    shots = sorted(shots, key=lambda shot: shot.name)
    say_what_is_turned(shots, str(folder))
    poses = [shot.pose for shot in shots]
    rotation = levelling(poses, options.up)
    placement = fit(
        *(poses, is_object, str(folder)),
        points=points,
        tangents=[shot.lens.tangents for shot in shots],
        rotation=rotation,
    )
    frames = tuple(shot.placed(placement) for shot in shots)
    split = usual_split(frames) if options.split is None else options.split
    splits, options = hold_out(frames, split, str(folder)), replace(options, split=split)
    return scene_of(folder, headers, placement, splits, UP, options, points)


def scene_of(
    folder: Path,
    headers: Sequence[Header],
    placement: Placement,
    splits: Splits,
    up: Direction,
    options: SceneOptions,
    points: npt.NDArray[np.float64] | None = None,
) -> Scene:
    """The scene that was read from `folder`, whose frames are placed already.

    `headers` are all pictures', and `points` (n, 3) in the files' coordinates.
    """
    has_alpha = any(header.has_alpha for header in headers)
    sparse = None if points is None or not len(points) else placement.to_scene(points)
    return Scene(
        folder.resolve().name,
        placement.extent,
        splits,
        up,
        has_alpha=has_alpha,
        options=options,
        placement=placement,
        points=sparse,
    )


def are_cut_out(pictures: Sequence[Path], headers: Sequence[Header]) -> bool:
    """Whether alpha cuts out what the pictures show: by three of those that have alpha.

    Some programs write alpha into every picture, opaque throughout.
    """
    alpha = [path for path, header in zip(pictures, headers, strict=True) if header.has_alpha]
    some = {*alpha[:1], *alpha[len(alpha) // 2 :][:1], *alpha[-1:]}
    return any(map(is_cut_out, some))


def headers_of(pictures: Sequence[Path]) -> list[Header]:
    """The headers of picture files, in order; raises InputError for one that is no picture."""
    with ThreadPoolExecutor() as pool:
        return list(pool.map(inspect, pictures))


def rigid(
    matrix: npt.NDArray[np.float64], where: str, *, mirrored: bool = False
) -> npt.NDArray[np.float64]:
    """The pose `matrix` (3, 4), with its rotation made exactly orthonormal.

    Raises InputError that names `where` unless it is rigid: a rotation and a position. If
    `mirrored` it is a rotation of a mirrored world, with the determinant -1.
    """
    rotation = matrix[:, :3]
    error = float(np.abs(rotation.T @ rotation - np.eye(3)).max())
    if error > RIGID_WITHIN:
        raise InputError(
            f"{where} is not rigid: its columns are off by {error:.3g} from "
            "length one and right angles; expected a rotation and a position"
        )
    if bool(np.linalg.det(rotation) < 0) != mirrored:
        raise InputError(f"{where} mirrors space; expected a rotation")
    left, _, right = np.linalg.svd(rotation)
    return np.concatenate([left @ right, matrix[:, 3:]], axis=1)


def rotation_of(quaternion: Sequence[float], where: str) -> npt.NDArray[np.float64]:
    """The rotation (3, 3) of a quaternion (w, x, y, z) of any length but zero.

    Raises InputError that names `where` for one that is zero or not finite.
    """
    w, x, y, z = quaternion
    length = w * w + x * x + y * y + z * z
    if not 1e-12 < length < LARGEST:
        raise InputError(f"{where} has the quaternion {list(quaternion)}; expected a rotation")
    s = 2.0 / length
    rotation = [
        [1 - s * (y * y + z * z), s * (x * y - w * z), s * (x * z + w * y)],
        [s * (x * y + w * z), 1 - s * (x * x + z * z), s * (y * z - w * x)],
        [s * (x * z - w * y), s * (y * z + w * x), 1 - s * (x * x + y * y)],
    ]
    return np.array(rotation)
