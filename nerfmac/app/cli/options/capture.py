"""Arguments of `nerfmac capture`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from nerfmac.app.cli.declared import POSITIONAL, Shown


@dataclass(frozen=True)
class Arguments:
    """Estimate the camera poses of a video or of photos, and write a scene."""

    source: Annotated[Path, POSITIONAL]
    """Video file, or folder of photos."""
    out: Annotated[Path | None, Shown("SCENE")] = None
    """Scene folder. If it contains an unfinished capture of the same source, nerfmac resumes it.
    [default: captures/NAME]"""
    longest_side: Annotated[int, Shown("PIXELS")] = 1920
    """Longer side of the scene's images in pixels. Larger images are downscaled."""
    frames: Annotated[int | None, Shown("N")] = None
    """Approximate number of frames to extract from a video. [default: 50 to 200, depending on how
    much the camera moves]"""
    matching: Literal["auto", "sequential", "exhaustive", "window"] = "auto"
    """Which pairs of images to match. exhaustive matches all pairs, which is slow for hundreds of
    images. sequential matches each image with the 10 following ones in name order, then with nearby
    cameras. window matches each image with the 40 following ones. auto uses sequential for a video
    and for photos whose names follow the order of capture. For other photos, and if cameras are
    missing or contradict the order, auto uses exhaustive (window from 100 images on) and keeps the
    result that agrees better with the order."""
    focal_35mm: Annotated[float | None, Shown("MM")] = None
    """35 mm equivalent focal length of all images in millimeters; 24 to 28 for the main camera of
    most phones. [default: from EXIF; without EXIF, nerfmac tries several values]"""
