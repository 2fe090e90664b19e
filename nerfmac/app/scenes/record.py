"""Comparison of a scene with the scene of a run."""

from __future__ import annotations

from dataclasses import astuple

import numpy as np

from nerfmac.app.scenes.scene import Scene
from nerfmac.common import InputError
from nerfmac.geometry import Camera

SAME_WITHIN = 1e-4
"""Maximum difference of equal cameras: of poses in scene units, and of intrinsics relative to their
values. Different machines round the placement of a scene differently."""


def check_same(scene: Scene, recorded: Scene, run: str) -> None:
    """Raise `InputError` unless `scene` has the training views, the cameras, and the options of the
    scene of a run, and its held-out views are held-out views of the run. `run` is the name of the
    run, for the message."""
    known = names_of(recorded)
    where = f"the scene {scene.path or scene.name}"
    advice = "use the scene and the options that the run was trained with, or train a new run"
    for split, names in names_of(scene).items():
        other = [name for name in names if name not in known.get(split, ())]
        other += [name for name in known[split] if name not in names] if split == "train" else []
        if other:
            raise InputError(
                f"{run} was trained with other views of {recorded.path} than {where} contains: "
                f"{len(other)} {split} views differ, such as {other[0]!r}; {advice}"
            )
    if names_of(scene)["train"] != known["train"]:
        raise InputError(f"{where} has the training views of {run} in another order; {advice}")
    for theirs, ours in zip(recorded.splits["train"], scene.splits["train"], strict=True):
        if not _is_same(ours.camera, theirs.camera):
            differs = f"{run} was trained with another camera for {ours.name!r}"
            raise InputError(f"{differs} than {where} contains; {advice}")
    trained, found = (
        f"extent {each.extent:g}, masks {each.options.masks}, and depth {each.options.depth}"
        for each in (recorded, scene)
    )
    if trained != found:
        raise InputError(f"{run} was trained with {trained}, but {where} has {found}; {advice}")


def names_of(scene: Scene) -> dict[str, list[str]]:
    """Return the names of the views of each split, in order."""
    return {split: [frame.name for frame in part] for split, part in scene.splits.items()}


def text_of(scene: Scene) -> str:
    """Return a text that is the same for equal scenes in different folders."""
    views = {
        split: [(frame.name, frame.camera, frame.mask is None) for frame in part]
        for split, part in scene.splits.items()
    }
    return repr((scene.extent, scene.up, scene.placement, scene.options, scene.subject, views))


def _is_same(one: Camera, other: Camera) -> bool:
    ours, theirs = (np.array(astuple(camera.lens), np.float64) for camera in (one, other))
    return bool(
        np.allclose(ours, theirs, rtol=SAME_WITHIN, atol=SAME_WITHIN)
        and np.allclose(one.pose, other.pose, rtol=0.0, atol=SAME_WITHIN)
    )
