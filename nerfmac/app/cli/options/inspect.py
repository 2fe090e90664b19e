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
    """Scene folder. For a video or a folder of photos, camera poses are estimated first."""
    out: Annotated[Path | None, Shown("FILE")] = None
    """PNG file for the drawing of cameras and points. [default: NAME-cameras.png in the working
    folder]"""
    against: Annotated[Path | None, Shown("SCENE")] = None
    """Second scene with the same images. Its cameras are aligned to the first scene and compared
    with it."""
