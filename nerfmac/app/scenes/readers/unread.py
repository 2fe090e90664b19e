"""Recognition of scene formats that nerfmac does not read, to report how to convert them."""

from pathlib import Path
from shlex import quote
from typing import NamedTuple

from nerfmac.common import InputError

OPENCV = "camera-to-world matrices with OpenCV axes"
TO_OPENGL = "for OpenCV axes, negate the second and the third column of each matrix"


class Unread(NamedTuple):
    """Format of scene folders. A folder has the format if each of the glob patterns `files` matches
    a file. `poses` describes the stored camera poses, and `images` is the folder of the images."""

    name: str
    files: tuple[str, ...]
    poses: str
    images: str = ""


UNREAD = (
    Unread("ScanNet", ("color/*", "pose/*.txt"), f"pose contains {OPENCV}", "color"),
    Unread("ScanNet", ("*.sens",), "export its color images and poses with ScanNet's SensReader"),
    Unread("NeRF++", ("train/rgb/*", "train/pose/*"), f"pose contains {OPENCV}", "train/rgb"),
    Unread("NeRF++", ("rgb/*", "pose/*", "intrinsics/*"), f"pose contains {OPENCV}", "rgb"),
    Unread("7-Scenes", ("seq-*/*.pose.txt",), f"*.pose.txt files contain {OPENCV}"),
    Unread("7-Scenes", ("*.pose.txt",), f"*.pose.txt files contain {OPENCV}"),
    Unread("Replica", ("traj.txt", "results/*"), f"traj.txt contains {OPENCV}", "results"),
    Unread("MVSNet", ("cams/*cam.txt",), "cams contains world-to-camera matrices, OpenCV axes"),
    Unread(
        "SDFStudio",
        ("meta_data.json",),
        f"camtoworld in meta_data.json contains {OPENCV}",
    ),
    Unread("Nerfies", ("camera/*.json", "rgb/*"), "orientation is a world-to-camera matrix"),
    Unread("OpenSfM", ("reconstruction.json",), "export it with `opensfm export_colmap`", "images"),
    Unread("OpenMVG", ("sfm_data*.json",), "export it with openMVG_main_openMVG2Colmap"),
    Unread("Meshroom", ("*.sfm",), "export it with the node ExportColmap"),
    Unread("Bundler", ("bundle*.out",), "rotations are world-to-camera with OpenGL axes"),
)
"""Formats in the order of their recognition."""


def refuse_unread(folder: Path) -> None:
    """Raise `InputError` if a folder has a format that nerfmac recognizes but does not read."""
    if (found := unread_format(folder)) is not None:
        again = quote(str(folder / found.images)) if found.images else "IMAGES"
        raise InputError(
            f"{folder} is a scene in the format {found.name}, which nerfmac does not read: convert "
            f"it to COLMAP's format or to a transforms.json ({found.poses}; {TO_OPENGL}), or "
            f"estimate the camera poses again with `nerfmac capture {again}`"
        )


def unread_format(folder: Path) -> Unread | None:
    """Return the format of a folder that nerfmac recognizes but does not read, or None."""
    for entry in UNREAD:
        if all(any(folder.glob(pattern)) for pattern in entry.files):
            return entry
    return None
