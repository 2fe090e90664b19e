"""Comparison of the cameras of two scenes with the same images, up to a similarity transform."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

import numpy as np
import numpy.typing as npt
from tqdm.auto import tqdm

from nerfmac.app.inspection.images import measure_images, normalized, shown_names
from nerfmac.app.scenes import Frame, Scene, load_scene
from nerfmac.common.checks import InputError
from nerfmac.common.progress import delayed_progress

Array = npt.NDArray[np.float64]
Pair = tuple[Frame, Frame]

log = logging.getLogger("nerfmac")

MIN_COMMON = 3  # A comparison requires at least this number of common images.
SAME = 0.998
"""Minimum correlation of thumbnails of the same image. Video frames and their JPEG copies have at
least 0.9992, and consecutive frames 0.98 (median)."""
TINY = 1e-12  # Lower bound on lengths that are used as denominators, to avoid division by zero.


@dataclass(frozen=True, eq=False)
class Comparison:
    """Camera differences between two aligned scenes, for the n images that they share."""

    names: tuple[str, ...]
    away: Array  # (n,) position difference, relative to the mean distance from the center.
    degrees: Array  # (n,) angle of the rotation between the two cameras.
    lengths: Array  # (n,) ratio of the focal lengths, both relative to the image width.
    counts: tuple[int, int]  # Number of images of the two scenes.

    def __str__(self) -> str:
        far, turned = int(self.away.argmax()), int(self.degrees.argmax())
        first, second = self.counts
        return "\n".join(
            [
                f"in common  {len(self.names)} images, of {first} and {second}",
                f"positions  median difference {np.median(self.away):.3%} of the mean radius; "
                f"maximum {self.away[far]:.3%}, {self.names[far]}",
                f"rotations  median difference {np.median(self.degrees):.3f} degrees; "
                f"maximum {self.degrees[turned]:.3f}, {self.names[turned]}",
                f"focal      median ratio of the focal lengths {np.median(self.lengths):.4f}",
            ]
        )


def compare_cameras(scene: Scene, against: Scene | str | os.PathLike[str]) -> Comparison:
    """Compare the cameras of two scenes for images with the same name. `against` is the reference
    scene or its path.

    Images are matched by file name without the extension. If file names are not unique, the names
    of the parent folders must also match. If fewer than three names match, for example because two
    programs numbered video frames differently, images are matched by content. The cameras are
    aligned with the similarity transform that best fits positions and rotations (Umeyama 1991),
    because positions on a line do not determine the rotation around this line.
    """
    other = against if isinstance(against, Scene) else load_scene(against)
    first, second = _frames(scene), _frames(other)
    common = _by_name(first, second)
    if len(common) < MIN_COMMON:
        same, common = len(common), _by_content(scene, other)
        if len(common) < MIN_COMMON:
            raise InputError(
                f"{scene.name} and {other.name} have {same} images with the same name, such as "
                f"{first[0].name} and {second[0].name}, and {len(common)} with the same content; "
                f"expected {MIN_COMMON} or more"
            )
        log.info(
            f"only {same} images have the same name; matched {len(common)} images by content, "
            f"such as {next(iter(common))}"
        )
    names, pairs = sorted(common), [common[name] for name in sorted(common)]
    poses = np.array([[frame.camera.pose for frame in pair] for pair in pairs], np.float64)
    away, degrees = differences(poses[:, 0], poses[:, 1])
    lengths = [
        (one.camera.lens.fl_x / one.camera.lens.width)
        / (two.camera.lens.fl_x / two.camera.lens.width)
        for one, two in pairs
    ]
    counts = len(first), len(second)
    return Comparison(tuple(names), away, degrees, np.array(lengths), counts)


def differences(found: Array, true: Array) -> tuple[Array, Array]:
    """Align `found` poses (n, 3, 4) with `true` poses (n, 3, 4), and return the remaining distances
    (n,), relative to the mean distance of the true positions from their center, and angles (n,) in
    degrees."""
    eyes, onto = (poses[:, :, 3] - poses[:, :, 3].mean(axis=0) for poses in (found, true))
    size, radius = (max(float(np.sqrt((at**2).sum(1).mean())), TINY) for at in (eyes, onto))
    # Positions and rotations have the same weight, because both sums are equal to the number of
    # cameras.
    sums = onto.T @ eyes / (size * radius)
    sums += np.einsum("nij,nkj->ik", true[:, :, :3], found[:, :, :3])
    left, _, right = np.linalg.svd(sums)
    turn = left * [1.0, 1.0, np.sign(np.linalg.det(left @ right))] @ right
    turned = eyes @ turn.T
    scale = (onto * turned).sum() / max(float((turned**2).sum()), TINY)
    away = np.linalg.norm(scale * turned - onto, axis=1)
    away /= max(float(np.linalg.norm(onto, axis=1).mean()), TINY)
    # The chord |A - B| = 2 sqrt(2) sin(angle / 2) is accurate for small angles, while a cosine
    # would be rounded to 1.
    chord = np.linalg.norm(turn @ found[:, :, :3] - true[:, :, :3], axis=(1, 2)) / np.sqrt(8)
    return away, np.degrees(2 * np.arcsin(np.minimum(chord, 1.0)))


def _frames(scene: Scene) -> list[Frame]:
    return list(dict.fromkeys(frame for some in scene.splits.values() for frame in some))


def _by_name(first: Sequence[Frame], second: Sequence[Frame]) -> dict[str, Pair]:
    """Return pairs of frames with the same file name without extension, or nothing if names are not
    unique even with the names of their folders."""
    for parts in (1, 2):
        ours, theirs = (
            {"/".join(PurePosixPath(f.name).with_suffix("").parts[-parts:]): f for f in frames}
            for frames in (first, second)
        )
        if (len(ours), len(theirs)) == (len(first), len(second)):
            return {name: (ours[name], theirs[name]) for name in ours.keys() & theirs.keys()}
    return {}


def _by_content(scene: Scene, other: Scene) -> dict[str, Pair]:
    """Return pairs of frames that are more similar to each other than to any other frame."""
    first, second = _frames(scene), _frames(other)
    names, others = shown_names(scene, first), shown_names(other, second)
    with tqdm(None, "images", len(first) + len(second), **delayed_progress(True)) as bar:
        ours, theirs = (
            normalized([image.thumbnail for image in measure_images(frames, bar)])
            for frames in (first, second)
        )
    likeness = ours @ theirs.T
    best = likeness.argmax(axis=1)
    return {
        f"{names[index]} = {others[match]}": (first[index], second[match])
        for index, match in enumerate(best)
        if likeness[index, match] > SAME and likeness[:, match].argmax() == index
    }
