"""Alignment of test cameras with refined training cameras by a similarity transform (Procrustes).

Refinement may rotate, shift, and scale all training cameras and the field together without changing
the images. The same transform must be applied to the test cameras before their images are compared
(BARF, Lin et al. 2021, section 4.1).
"""

from __future__ import annotations

from dataclasses import replace

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from nerfmac.geometry.cameras import Cameras

Poses = npt.NDArray[np.float64]


def align_poses(poses: Poses, initial: Poses, refined: Poses) -> Poses:
    """Apply the similarity transform that best maps `initial` training cameras (n, 3, 4) to
    `refined` training cameras (n, 3, 4) to camera-to-scene `poses` (m, 3, 4).

    The rotation is the mean of the rotations from each initial camera to its refined camera, so a
    single camera is sufficient. Scale and shift are a least-squares fit of the camera positions.
    """
    u, _, v = np.linalg.svd(np.einsum("nij,nkj->ik", refined[:, :, :3], initial[:, :, :3]))
    rotation = u @ np.diag([1.0, 1.0, np.linalg.det(u @ v)]) @ v
    before, after = initial[:, :, 3] @ rotation.T, refined[:, :, 3]
    mean_before, mean_after = before.mean(axis=0), after.mean(axis=0)
    spread = float(np.square(before - mean_before).sum())
    product = float(((after - mean_after) * (before - mean_before)).sum())
    scale = product / spread if spread > 1e-12 else 1.0
    position = scale * (poses[:, :, 3] @ rotation.T - mean_before) + mean_after
    return np.concatenate([rotation @ poses[:, :, :3], position[:, :, None]], axis=2)


def align_cameras(cameras: Cameras, initial: Cameras, refined: Cameras) -> Cameras:
    """Move `cameras` by the similarity transform that best maps the cameras `initial` to
    `refined`."""
    poses = (np.array(group.poses, np.float64) for group in (cameras, initial, refined))
    return replace(cameras, poses=mx.array(align_poses(*poses).astype(np.float32)))
