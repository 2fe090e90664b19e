"""Findings as text: a line for each if they are few, else one line with their number."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from nerfmac.app.scenes import Frame, Scene

MOST_LINES = 5
"""Largest number of findings of one kind that get a line each."""
EXAMPLES = 3
"""Number of findings quoted as examples if more than `MOST_LINES` are of one kind."""


def summed_up(lines: Sequence[str], predicate: str) -> list[str]:
    """The `lines`, or if they are many one line: "N images PREDICATE, such as: ..."."""
    if len(lines) <= MOST_LINES:
        return list(lines)
    return [f"{len(lines)} images {predicate}, such as: {'; '.join(lines[:EXAMPLES])}"]


def shown_names(scene: Scene, frames: Sequence[Frame]) -> list[str]:
    """Names of the frames in findings: paths of their images within the scene's folder.

    A scene's file may hold absolute paths of another machine. Frames whose images are no files
    keep their names.
    """
    paths = [frame.image for frame in frames if isinstance(frame.image, Path)]
    if not paths:
        return [frame.name for frame in frames]
    folders = {os.path.abspath(path.parent) for path in paths}
    if scene.path is not None:
        at = os.path.abspath(scene.path)
        folders.add(at if os.path.isdir(at) else os.path.dirname(at))
    root = os.path.commonpath(folders)
    return [
        Path(os.path.relpath(frame.image, root)).as_posix()
        if isinstance(frame.image, Path)
        else frame.name
        for frame in frames
    ]
