"""Which views are for training: by lists of names in the file, or by holding out every Nth."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nerfmac.checks import InputError
from nerfmac.json_reader import Fields
from nerfmac.scenes.scene import Frame

NAMES = ("train", "val", "test")
TEST_EVERY = 8
"""The usual split of captures, since Mildenhall et al., 2019 (local light field fusion)."""

Splits = dict[str, tuple[Frame, ...]]


def hold_out(frames: tuple[Frame, ...], every: int, where: str) -> Splits:
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


def hold_out_some(frames: tuple[Frame, ...], every: int | None, where: str) -> Splits:
    """The splits of a capture without any of its own: as `hold_out`, by default with every 8th.

    A single view is trained on by default.
    """
    if every is None:
        every = TEST_EVERY if len(frames) > 1 else 0
    return hold_out(frames, every, where)


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
