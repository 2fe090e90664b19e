"""Depth images that JSON scene files list.

nerfstudio lists `depth_file_path` for each frame, a PNG file with 16 bits or a .npy file. A stored
value times `depth_unit_scale_factor` (by default 0.001, for millimeters) is the depth in units of
the poses. instant-ngp and NeRFCapture list `depth_path`, a PNG file with 16 bits, and a stored
value times `integer_depth_scale` is the depth in units of the poses. Without
`integer_depth_scale`, or if `enable_depth_loading` is false, instant-ngp does not read depth
images. In both programs, depth is along the optical axis.
"""

import os
from pathlib import Path

from nerfmac.app.scenes.depth_images import DepthImage
from nerfmac.common.files import leads_out, spelled
from nerfmac.common.json_reader import Fields

STUDIO_UNIT = 1e-3
"""Default of `depth_unit_scale_factor` in nerfstudio, for depth images in millimeters."""


def depth_of(frame: Fields, file: Fields, folder: Path) -> DepthImage | None:
    """Return the depth image that a frame lists, or None. `file` contains values for all frames,
    and `folder` is the folder of the file."""
    if frame.values.get("depth_file_path"):
        unit = _value("depth_unit_scale_factor", frame, file, STUDIO_UNIT)
        return DepthImage(_path("depth_file_path", frame, folder), unit)
    if not frame.values.get("depth_path"):
        return None
    is_enabled = file.flag("enable_depth_loading", default=True)
    unit = _value("integer_depth_scale", frame, file, 0.0)
    if not is_enabled or not unit > 0:
        return None
    return DepthImage(_path("depth_path", frame, folder), unit)


def _value(key: str, frame: Fields, file: Fields, default: float) -> float:
    return (frame if key in frame else file).number(key, default)


def _path(key: str, frame: Fields, folder: Path) -> Path:
    path = Path(os.path.normpath(folder / frame.text(key).replace("\\", "/")))
    if leads_out(path, folder):
        raise frame.wrong(key, f"a file in {folder}, or a symbolic link there to another folder")
    return spelled(path)
