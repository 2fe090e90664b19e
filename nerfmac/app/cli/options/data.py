"""Arguments of `nerfmac data`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from nerfmac.app.cli.declared import POSITIONAL, Shown


@dataclass(frozen=True)
class Arguments:
    """List public scenes with their size, license, and source, or download a scene.

    Only the download uses the network.
    """

    scene: Annotated[str | None, POSITIONAL, Shown("[SCENE]")] = None
    """Scene to download, such as lego or mipnerf360/room. Without SCENE, nerfmac lists all
    scenes."""
    out: Path = Path("data")
    """Folder for downloads. nerfmac saves the scene in OUT/COLLECTION/SCENE and resumes interrupted
    downloads."""
