"""Cameras of the same pictures compared, wherever their coordinates lie."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

import numpy as np
import numpy.typing as npt
from tqdm.auto import tqdm

from nerfmac.common.checks import InputError
from nerfmac.inspection.findings import shown_names
from nerfmac.inspection.pictures import look_at, normalised
from nerfmac.scenes import Frame, Scene, load_scene
from nerfmac.scenes.prefetch import delayed_progress

Array = npt.NDArray[np.float64]
Pair = tuple[Frame, Frame]

log = logging.getLogger("nerfmac")

FEWEST = 3
"""Pictures in common that a comparison wants."""
SAME = 0.998
"""Correlation of two thumbnails from which on they are one picture. Frames of a phone's film and
their copies as JPEG have 0.9992 and more, frames that follow each other 0.98 in the median."""
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

    Endings and folders of names do not count. Where fewer than three have the same name, as frames
    of one film that two programs have numbered, pictures are matched by what they show, with a
    line. The first cameras are moved by the similarity that
    fits places and rotations best (Umeyama 1991; rotations too, as places in a line leave a turn
    open). Raises InputError if fewer than three pictures are in common.
    """
    other = against if isinstance(against, Scene) else load_scene(against)
    first, second = (_frames(each) for each in (scene, other))
    found = _by_name(first, second)
    if len(found) < FEWEST:
        same, found = len(found), _by_content(scene, other)
        if len(found) < FEWEST:
            raise InputError(
                f"{scene.name} and {other.name} have {same} pictures of the same name, such as "
                f"{first[0].name} and {second[0].name}, and {len(found)} that look the same; "
                f"expected {FEWEST} or more"
            )
        log.info(
            "pictures are matched by what they show, as %d have the same name: %d, such as %s",
            *(same, len(found), next(iter(found))),
        )
    names, pairs = sorted(found), [found[name] for name in sorted(found)]
    away, degrees = differences(*(_poses([pair[side] for pair in pairs]) for side in (0, 1)))
    lengths = [
        (one.camera.lens.fl_x / one.camera.lens.width)
        / (two.camera.lens.fl_x / two.camera.lens.width)
        for one, two in pairs
    ]
    counts = len(first), len(second)
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


def _by_name(first: Sequence[Frame], second: Sequence[Frame]) -> dict[str, Pair]:
    """Frames of two scenes by their common names, or with the folder where that tells them apart.

    Empty if neither does.
    """
    for parts in (1, 2):
        ours, theirs = (
            {"/".join(PurePosixPath(f.name).with_suffix("").parts[-parts:]): f for f in frames}
            for frames in (first, second)
        )
        if (len(ours), len(theirs)) == (len(first), len(second)):
            return {name: (ours[name], theirs[name]) for name in ours.keys() & theirs.keys()}
    return {}


def _by_content(scene: Scene, other: Scene) -> dict[str, Pair]:
    """Frames of two scenes that show the same: each is of all the other scene's the most alike."""
    first, second = _frames(scene), _frames(other)
    names, others = shown_names(scene, first), shown_names(other, second)
    with tqdm(None, "pictures", len(first) + len(second), **delayed_progress(True)) as bar:
        ours, theirs = (
            normalised([look.thumbnail for look in look_at(frames, bar)])
            for frames in (first, second)
        )
    likeness = ours @ theirs.T
    best = likeness.argmax(axis=1)
    return {
        f"{names[index]} = {others[there]}": (first[index], second[there])
        for index, there in enumerate(best)
        if likeness[index, there] > SAME and likeness[:, there].argmax() == index
    }


def _poses(frames: Sequence[Frame]) -> Array:
    return np.stack([frame.camera.pose for frame in frames]).astype(np.float64)
