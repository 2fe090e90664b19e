"""Arguments of `nerfmac view`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from nerfmac.app.cli.declared import POSITIONAL, Shown
from nerfmac.app.cli.scene_flags import SceneFlags


@dataclass(frozen=True)
class Arguments(SceneFlags):
    """Open JupyterLab with a notebook that shows a run or trains a field on a scene.

    Arguments after -- are passed to JupyterLab.
    """

    path: Annotated[Path | None, POSITIONAL, Shown("[RUN|SCENE]")] = None
    """Run folder, snapshot of instant-ngp, scene folder, video, or folder of photos. For a video or
    photos, nerfmac first estimates the camera poses. [default: the built-in scene]"""
    browser: bool = True
    """Open a browser. With --no-browser, nerfmac only prints the address of the notebook."""
    port: Annotated[int | None, Shown("INT")] = None
    """Port of JupyterLab. [default: the first free port from 8888]"""
