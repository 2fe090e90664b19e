"""Where what lies in the coordinates of a scene's files is in the scene of a run."""

from __future__ import annotations

from nerfmac.common.checks import InputError
from nerfmac.run.run import Run
from nerfmac.scenes.placement import Placement
from nerfmac.scenes.record import SceneRecord


def placement_of(run: Run) -> Placement:
    """Where the coordinates of the files of the run's scene lie in scene space.

    Raises `InputError` if the run does not say so and its scene cannot be read again.
    """
    if run.scene.placement is not None:
        return run.scene.placement
    lost = "the run does not say where its scene's own coordinates lie"
    try:
        placement = SceneRecord.of(run.pictures()).placement
    except InputError as error:
        raise InputError(f"{lost}: {error}") from error
    if placement is None:
        raise InputError(f"{lost}, and nor does the scene: {run.scene.path}")
    return placement
