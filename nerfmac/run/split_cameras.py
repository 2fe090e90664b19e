"""`split_cameras`: the cameras of a split's views, without their pictures."""

from __future__ import annotations

from collections.abc import Sequence

from nerfmac.common.checks import InputError
from nerfmac.geometry.cameras import Camera
from nerfmac.run.run import Run
from nerfmac.scenes import read_again


def split_cameras(run: Run, split: str) -> Sequence[Camera]:
    """The cameras of `split`, "train" or "test"; the former as they are refined by now.

    Raises `InputError` if the run's files do not tell them.
    """
    if split == "train":
        return run.cameras
    if run.source is None and run.scene.path is None:
        raise InputError(f"the run's scene was never in files: its {split} views are not known")
    scene = run.source or read_again(run.scene)
    if not scene.splits.get(split):
        raise InputError(f"scene {scene.name!r} has no {split!r} views; take --path orbit")
    return [frame.camera for frame in scene.splits[split]]
