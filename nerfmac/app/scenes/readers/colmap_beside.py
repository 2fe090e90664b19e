"""Reading of tracks from a COLMAP model next to a `transforms.json`."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

import numpy as np
import numpy.typing as npt

from nerfmac.app.scenes.posed_image import PosedImage
from nerfmac.app.scenes.readers.colmap import camera_to_file, model_folder, tracks_of
from nerfmac.app.scenes.readers.colmap_model import ColmapImage, read_model
from nerfmac.common.checks import InputError
from nerfmac.geometry.placement import Placement
from nerfmac.geometry.tracks import Tracks

Array = npt.NDArray[np.float64]

MIN_CAMERAS = 3
"""Minimum number of cameras for aligning two coordinate systems."""
ALIGNED_WITHIN = 1e-3
"""Maximum difference between aligned cameras, in radians for rotations and relative to the extent
of the cameras for positions."""

log = logging.getLogger("nerfmac")


def tracks_beside(folder: Path, images: Sequence[PosedImage]) -> Tracks | None:
    """Return the tracks of the COLMAP model in `folder`, in the coordinates of the image poses.

    `nerfmac capture` and nerfstudio's `ns-process-data` create `transforms.json` from a COLMAP
    model and store both. The cameras of the model are matched to the images by file name, and the
    matched cameras determine the transform between the two coordinate systems. If there is no
    model, the model is invalid, or its cameras differ from the poses of the images, the result is
    None, and the reason is logged.
    """
    path = model_folder(folder)
    if path is None:
        return None
    try:
        model = read_model(path)
    except InputError as error:
        log.warning(f"{error}; continuing without its tracks")
        return None
    entries = _by_name(model.images, images)
    found = {view: entry for view, entry in enumerate(entries) if entry is not None}
    alignment = _alignment(found, images)
    if alignment is None:
        log.info(f"the cameras in {path} differ from the scene cameras; ignoring its tracks")
        return None
    tracks = tracks_of(model, entries, images)
    return tracks and tracks.transformed(alignment)


def _by_name(
    entries: Sequence[ColmapImage], images: Sequence[PosedImage]
) -> list[ColmapImage | None]:
    """Return a list with the model entry for each image. An entry matches an image if it has the
    same file name. If an image has no match or more than one match, its entry is None."""
    by_name: dict[str, ColmapImage | None] = {}
    for entry in entries:
        name = PurePosixPath(entry.name.replace("\\", "/")).name
        by_name[name] = None if name in by_name else entry
    return [by_name.get(PurePosixPath(image.name).name) for image in images]


def _alignment(
    entries: Mapping[int, ColmapImage], images: Sequence[PosedImage]
) -> Placement | None:
    """Return the similarity transform from model coordinates to the coordinates of the image poses.

    Camera rotations determine the rotation (orthogonal Procrustes problem), and positions determine
    the scale and the offset. The result is None if the cameras do not match.
    """
    if len(entries) < MIN_CAMERAS:
        return None
    poses = np.stack([camera_to_file(entry) for entry in entries.values()])
    wanted = np.stack([images[view].pose for view in entries])
    u, _, v = np.linalg.svd(np.einsum("nij,nkj->ik", wanted[:, :, :3], poses[:, :, :3]))
    rotation = u @ v
    eyes, targets = poses[:, :, 3] @ rotation.T, wanted[:, :, 3]
    eyes_from, targets_from = eyes - eyes.mean(0), targets - targets.mean(0)
    spread = float(np.square(eyes_from).sum())
    if spread <= 0.0:
        return None
    scale = float((eyes_from * targets_from).sum()) / spread
    misfit = np.abs(scale * eyes_from - targets_from).max()
    turn = np.abs(rotation @ poses[:, :, :3] - wanted[:, :, :3]).max()
    if scale <= 0 or max(turn, misfit / np.abs(targets_from).max()) > ALIGNED_WITHIN:
        return None
    return Placement(scale, targets.mean(0) - scale * eyes.mean(0), 1.0, rotation)
