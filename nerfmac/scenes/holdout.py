"""Keeping some views out of training, to measure with."""

from __future__ import annotations

from nerfmac.checks import InputError
from nerfmac.scenes.scene import Frame


def hold_out(frames: tuple[Frame, ...], every: int, where: str) -> dict[str, tuple[Frame, ...]]:
    """Frames 0, `every`, 2 `every`, ... as "test" and the rest as "train"; 0 holds none out.

    Raises InputError that names `where` if nothing is left to train on.
    """
    if every == 0:
        return {"train": frames}
    test = frames[::every]
    if len(test) == len(frames):
        raise InputError(
            f"test_every={every} holds out every view of {where}, which has {len(frames)}; "
            "use 0 to train on all of them"
        )
    train = tuple(frame for index, frame in enumerate(frames) if index % every)
    return {"train": train, "test": test}
