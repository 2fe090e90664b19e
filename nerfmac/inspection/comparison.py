"""Cameras of the same pictures compared, wherever their coordinates lie."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from nerfmac.checks import InputError
from nerfmac.scenes import Frame, Scene, load_scene

Array = npt.NDArray[np.float64]

FEWEST = 3
"""Pictures in common that a comparison wants."""
TINY = 1e-12
"""Sizes below it are as good as none."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """How far each camera is from another one of the same picture.

    `away` (n,) is the distance in mean radii: mean distances of the other cameras from their
    middle. `degrees` (n,) is the angle of the rotation between the two, and `lengths` (n,) the
    quotient of their focal lengths. `counts` are the pictures of the two scenes.
    """

    names: tuple[str, ...]
    away: Array
    degrees: Array
    lengths: Array
    counts: tuple[int, int]

    def __str__(self) -> str:
        far, turned = int(self.away.argmax()), int(self.degrees.argmax())
        first, second = self.counts
        return "\n".join(
            [
                f"in common  {len(self.names)} pictures, of {first} and {second}",
                f"places     {np.median(self.away):.3%} of the mean radius apart in the median; "
                f"{self.away[far]:.3%} at most, {self.names[far]}",
                f"rotations  {np.median(self.degrees):.3f} degrees apart in the median; "
                f"{self.degrees[turned]:.3f} at most, {self.names[turned]}",
                f"focal      {np.median(self.lengths):.4f} times as long in the median",
            ]
        )


def compare_cameras(scene: Scene, against: Scene | str | os.PathLike[str]) -> Comparison:
    """Compare a scene's cameras with those of `against`, matched by their pictures' names.

    Endings and folders of names do not count. The first cameras are moved by the similarity that
    fits places and rotations best (Umeyama 1991; rotations too, as places in a line leave a turn
    open). Raises InputError if fewer than three pictures are in common, or names are not unique.
    """
    other = against if isinstance(against, Scene) else load_scene(against)
    frames = tuple(_frames(each) for each in (scene, other))
    ours, theirs = _by_name(frames, 1) or _by_name(frames, 2) or _twice(scene, other)
    names = sorted(ours.keys() & theirs.keys())
    if len(names) < FEWEST:
        raise InputError(
            f"{scene.name} and {other.name} have {len(names)} pictures of the same name, such as "
            f"{next(iter(ours))} and {next(iter(theirs))}; expected {FEWEST} or more"
        )
    pairs = [(ours[name], theirs[name]) for name in names]
    found, true = (_poses([pair[side] for pair in pairs]) for side in (0, 1))
    away, degrees = differences(found, true)
    lengths = [
        (one.camera.lens.fl_x / one.camera.lens.width)
        / (two.camera.lens.fl_x / two.camera.lens.width)
        for one, two in pairs
    ]
    counts = len(ours), len(theirs)
    return Comparison(tuple(names), away, degrees, np.array(lengths), counts)


def differences(found: Array, true: Array) -> tuple[Array, Array]:
    """What is left between two sets of poses (n, 3, 4) when a similarity has moved the first.

    That is the distance of each two places, in mean radii of `true`, and the angle in degrees.
    """
    eyes, onto = (poses[:, :, 3] - poses[:, :, 3].mean(axis=0) for poses in (found, true))
    size, radius = (max(float(np.sqrt((each**2).sum(1).mean())), TINY) for each in (eyes, onto))
    # Places and rotations weigh alike: each sum is as large as the number of cameras.
    sums = onto.T @ eyes / (size * radius)
    sums += np.einsum("nij,nkj->ik", true[:, :, :3], found[:, :, :3])
    left, _, right = np.linalg.svd(sums)
    turn = left * [1.0, 1.0, np.sign(np.linalg.det(left @ right))] @ right
    turned = eyes @ turn.T
    scale = (onto * turned).sum() / max(float((turned**2).sum()), TINY)
    away = np.linalg.norm(scale * turned - onto, axis=1)
    away /= max(float(np.linalg.norm(onto, axis=1).mean()), TINY)
    # The chord |A - B| = 2 sqrt(2) sin(angle / 2) is exact where a cosine would be rounded away.
    chord = np.linalg.norm(turn @ found[:, :, :3] - true[:, :, :3], axis=(1, 2)) / np.sqrt(8)
    return away, np.degrees(2 * np.arcsin(np.minimum(chord, 1.0)))


def _frames(scene: Scene) -> list[Frame]:
    return list(dict.fromkeys(frame for some in scene.splits.values() for frame in some))


def _by_name(
    scenes: tuple[list[Frame], ...], parts: int
) -> tuple[dict[str, Frame], dict[str, Frame]] | None:
    """The frames of two scenes by the last parts of their names; None if these are not unique."""
    found = []
    for frames in scenes:
        names = [PurePosixPath(frame.name).with_suffix("").parts for frame in frames]
        found.append(dict(zip(("/".join(name[-parts:]) for name in names), frames, strict=True)))
        if len(found[-1]) < len(frames):
            return None
    ours, theirs = found
    return ours, theirs


def _twice(scene: Scene, other: Scene) -> NoReturn:
    raise InputError(f"{scene.name} or {other.name} has two pictures of one name; expected unique")


def _poses(frames: Sequence[Frame]) -> Array:
    return np.stack([frame.camera.pose for frame in frames]).astype(np.float64)
