"""Formatting of findings as text: a line for each finding or, if there are many findings of one
kind, one line with their number and a few examples."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from nerfmac.app.scenes import Frame, Scene

MAX_LINES = 5  # Maximum number of findings of one kind that are listed individually.
EXAMPLES = 3
"""Number of examples that are listed if there are more than `MAX_LINES` findings of one kind."""


def summed_up(lines: Sequence[str], predicate: str) -> list[str]:
    """Return `lines`. If there are more than `MAX_LINES`, return one line "N images PREDICATE, such
    as: ..." instead."""
    if len(lines) <= MAX_LINES:
        return list(lines)
    return [f"{len(lines)} images {predicate}, such as: {'; '.join(lines[:EXAMPLES])}"]


def shown_names(scene: Scene, frames: Sequence[Frame]) -> list[str]:
    """Return the names of frames for findings: image paths relative to the scene folder, or frame
    names for images in memory. The names in scene files may be absolute paths from another
    machine."""
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
