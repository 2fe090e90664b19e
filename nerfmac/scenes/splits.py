"""Which views are for training: by lists of names in the file, or by holding some out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from nerfmac.common.checks import InputError
from nerfmac.common.json_reader import Fields
from nerfmac.scenes.options import Split
from nerfmac.scenes.scene import Frame

NAMES = ("train", "val", "test")
TEST_EVERY = 8
"""The usual split of captures, since Mildenhall et al., 2019 (local light field fusion)."""

Splits = dict[str, tuple[Frame, ...]]


def hold_out(frames: tuple[Frame, ...], split: Split, where: str) -> Splits:
    """The views that `split` says as "test" and the rest as "train"; with 0 no "test".

    Every Nth are views 0, N, 2 N, ...; a fraction is spread as evenly over all. Raises InputError
    that names `where` if nothing is left to train on, or for a name that no view has.
    """
    if split == 0:
        return {"train": frames}
    if isinstance(split, tuple):
        held = {_index_of(name, frames, where) for name in split}
    elif isinstance(split, float):
        count = max(round(split * len(frames)), 1)
        held = {index * len(frames) // count for index in range(count)}
    else:
        held = set(range(0, len(frames), split))
    if len(held) == len(frames):
        given = "split, by its names," if isinstance(split, tuple) else f"split={split}"
        raise InputError(
            f"{given} holds out every view of {where}, which has {len(frames)}; use none to train "
            "on all of them"
        )
    test = tuple(frame for index, frame in enumerate(frames) if index in held)
    train = tuple(frame for index, frame in enumerate(frames) if index not in held)
    return {"train": train, "test": test}


def usual_split(frames: Sequence[Frame]) -> int:
    """The split of a capture without any of its own: every 8th, or none of a single view."""
    return TEST_EVERY if len(frames) > 1 else 0


def _index_of(name: str, frames: Sequence[Frame], where: str) -> int:
    """Which view is called `name`: in full, or by its picture's name where only one is."""
    wanted = PurePosixPath(name.replace("\\", "/"))
    paths = [PurePosixPath(frame.name) for frame in frames]
    for alike in (
        [path == wanted for path in paths],
        [path.name == wanted.name for path in paths],
        [path.stem == wanted.name for path in paths],
    ):
        if sum(alike) == 1:
            return alike.index(True)
        if any(alike):
            raise InputError(
                f"split names {name!r}, and {sum(alike)} views of {where} are called so; expected "
                f"a name such as {frames[0].name!r}"
            )
    raise InputError(
        f"split names {name!r}, which is no view of {where} to train on; expected a name such as "
        f"{frames[0].name!r}"
    )


def lists_splits(file: Fields) -> bool:
    """Whether the file has one of nerfstudio's lists, such as `train_filenames`."""
    return any(_key(split) in file for split in NAMES)


def listed(file: Fields, frames: Sequence[Frame], absent: Sequence[str]) -> Splits:
    """The splits that the file lists by its frames' `file_path`; a frame in no list is left out.

    `absent` are names of frames without a picture; the lists may have them too. Raises InputError
    for a name that no frame has, and if nothing is left to train on.
    """
    by_name = {frame.name: frame for frame in frames}
    splits = {}
    for split in NAMES:
        chosen = []
        for name in file.texts(_key(split), ()):
            name = Path(name).as_posix()
            if name in by_name:
                chosen.append(by_name[name])
            elif name not in absent:
                raise InputError(
                    f"{file.where}: {_key(split)} lists {name!r}, which is the file_path of no "
                    "frame"
                )
        if chosen:
            splits[split] = tuple(sorted(chosen, key=lambda frame: frame.name))
    if "train" not in splits:
        raise InputError(
            f"{file.where}: no view is left to train on: {_key('train')} is missing or lists no "
            "frame that has a picture"
        )
    return splits


def _key(split: str) -> str:
    return f"{split}_filenames"
