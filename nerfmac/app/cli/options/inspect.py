"""Arguments of `nerfmac inspect`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from nerfmac.app.cli.declared import POSITIONAL, Shown
from nerfmac.app.cli.scene_flags import SceneFlags


@dataclass(frozen=True)
class Arguments(SceneFlags):
    """Summarize a scene, report possible problems, and draw its cameras and points."""

    scene: Annotated[Path, POSITIONAL] = field(kw_only=True)
    """Scene folder, video, or folder of photos. For a video or photos, nerfmac first estimates the
    camera poses."""
    out: Annotated[Path | None, Shown("FILE")] = None
    """PNG file for the drawing of cameras and sparse points. [default: NAME-cameras.png in the
    current folder]"""
    against: Annotated[Path | None, Shown("SCENE")] = None
    """Reference scene with the same images. nerfmac aligns the cameras of the two scenes and
    reports their differences."""
