"""Arguments of `nerfmac capture`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from nerfmac.app.cli.declared import POSITIONAL, Shown


@dataclass(frozen=True)
class Arguments:
    """Estimate the camera poses of photos or video frames, and write a scene."""

    source: Annotated[Path, POSITIONAL]
    """Video file, or folder of photos."""
    out: Annotated[Path | None, Shown("SCENE")] = None
    """Scene folder. If it contains an unfinished capture of the same source, nerfmac resumes it.
    [default: captures/NAME]"""
    longest_side: Annotated[int, Shown("PIXELS")] = 1920
    """Maximum length of the longer image side in pixels. Larger images are downscaled."""
    frames: Annotated[int | None, Shown("N")] = None
    """Approximate number of frames to extract from a video. [default: 50 to 200, depending on how
    much the camera moves]"""
    matching: Literal["auto", "sequential", "exhaustive", "window"] = "auto"
    """Pairs of images to match. exhaustive matches all pairs and is slow for hundreds of images.
    sequential matches each image with the next 10 images in name order, and then with images from
    nearby cameras. window matches each image with the next 40 images. auto uses sequential for
    videos, and for photos if their names follow the order of capture. For other photos, auto uses
    exhaustive, or window for 100 or more images. If sequential matching registers too few images,
    or if the camera poses contradict the order of capture, auto also tries exhaustive or window,
    and uses the result that agrees better with the order of capture."""
    focal_35mm: Annotated[float | None, Shown("MM")] = None
    """35 mm equivalent focal length of all images in millimeters. The main camera of most phones
    has an equivalent focal length of 24 to 28 mm. [default: the value in the EXIF data; if the EXIF
    data contains no focal length, nerfmac compares several values]"""
