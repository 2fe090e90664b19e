"""Differences between estimated and known camera poses, up to a similarity transform."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

TINY = 1e-12  # Lower bound on lengths that are used as denominators, to avoid division by zero.


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
