"""Which splits of a scene say little: one training view, or the same pictures in two splits."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

from nerfmac.scenes import Scene


def split_findings(scene: Scene) -> list[str]:
    """A line for a single training view, and for two splits of the same pictures."""
    found = []
    if len(scene.splits["train"]) == 1:
        found.append("there is one training view: where things are can be told from several only")
    pictures = {
        name: {frame.picture for frame in frames if isinstance(frame.picture, Path)}
        for name, frames in scene.splits.items()
    }
    for one, other in combinations(pictures, 2):
        if pictures[one] and pictures[one] == pictures[other]:
            count = len(pictures[one])
            found.append(f"the splits {one} and {other} have the same {count} pictures")
    return found
