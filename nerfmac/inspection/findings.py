"""Findings in words: a line each where they are few, one line that counts them where many."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from nerfmac.scenes import Frame, Scene

MOST_LINES = 5
"""More findings of one kind are counted, and the first `EXAMPLES` given."""
EXAMPLES = 3


def summed_up(lines: Sequence[str], what: str) -> list[str]:
    """The `lines`, or where they are many one line that counts them; `what` pictures do."""
    if len(lines) <= MOST_LINES:
        return list(lines)
    return [f"{len(lines)} pictures {what}, such as: {'; '.join(lines[:EXAMPLES])}"]


def shown_names(scene: Scene, frames: Sequence[Frame]) -> list[str]:
    """What findings call the frames: their pictures' paths within the scene's folder.

    A file may name them by paths of the machine that it was written on. Frames whose pictures are
    no files keep their names.
    """
    paths = [frame.picture for frame in frames if isinstance(frame.picture, Path)]
    if not paths:
        return [frame.name for frame in frames]
    folders = {os.path.abspath(path.parent) for path in paths}
    if scene.path is not None:
        at = os.path.abspath(scene.path)
        folders.add(at if os.path.isdir(at) else os.path.dirname(at))
    root = os.path.commonpath(folders)
    return [
        Path(os.path.relpath(frame.picture, root)).as_posix()
        if isinstance(frame.picture, Path)
        else frame.name
        for frame in frames
    ]
