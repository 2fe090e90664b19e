"""Recognition of known camera poses in files that nerfmac does not read, by their content, to
report how to convert them before camera poses are estimated again."""

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nerfmac.app.scenes.images import image_files
from nerfmac.common import walk

SUFFIXES = {
    *(".json", ".geojson", ".xml", ".xmp", ".csv", ".tsv", ".txt", ".bin", ".sfm", ".out"),
    *(".nvm", ".traj", ".sens"),
}
"""File extensions of files that may contain poses, in lower case."""
DEPTH, MAX_FILES, MAX_BYTES = 2, 8, 2**22
"""Number of levels of folders that are searched, number of files of each folder and extension, and
number of bytes at the beginning of each file."""
FEWEST = 3  # Minimum number of poses.
RIGID_WITHIN = 1e-2  # Maximum entry of |R R^T - I| of a rotation R.
COLMAP = "export it as a COLMAP model"
MATRICES = "write the matrices to a transforms.json"
TO_OPENGL = (
    "camera-to-world matrices with OpenGL axes; for OpenCV axes, negate the second and the third "
    "column of each matrix"
)

FORMATS = {
    "RealityScan": (
        r"^#?\s*(name|file_?name|image|label|photoid)\s*,\s*x\s*,\s*y\s*,\s*(z|alt|altitude)\s*,"
        r"\s*(heading|yaw|omega|r\d\d|qw)\b|capturingreality.*xcr:(Rotation|Position)",
        COLMAP,
    ),
    "Metashape": (r"<(document|chunk)\b.*<camera\b.*<transform>", COLMAP),
    "BlocksExchange": (r"<BlocksExchange\b.*<Pose>", "import it in Metashape or RealityScan"),
    "Pix4D": (r"camera matrix K \[3x3\].*camera rotation R \[3x3\]", COLMAP),
    "OpenMVG": (r'"sfm_data_version".*"extrinsics": *\[\s*\{', "use openMVG_main_openMVG2Colmap"),
    "Meshroom": (r'"poses": *\[\s*\{.*"rotation"', "use the node ExportColmap"),
    "OpenSfM": (r'"shots".*"rotation".*"translation"', "use `opensfm export_colmap`"),
    "OpenDroneMap": (r'"FeatureCollection".*"rotation".*"translation"', MATRICES),
    "Bundler": (r"\A# Bundle file", "import it in COLMAP or Meshroom"),
    "VisualSFM": (r"\ANVM_V3", "import it in COLMAP or Meshroom"),
    "TUM RGB-D": (r"\A#.*^# timestamp tx ty tz qx qy qz qw", MATRICES),
    "kapture": (r"\A# kapture format.*\bqw\b", "use kapture_export_colmap.py"),
    "SDFStudio": (r'"camtoworld"', MATRICES),
    "Nerfies": (r'\A(?=.*"focal_length")(?=.*"orientation")(?=.*"position")', MATRICES),
    "MVSNet": (r"\A\s*extrinsic(\s+[-+\d.e]+){16}", MATRICES),
    "ScanNet": (r"\A\x04\0\0\0.{0,12}StructureSensor", "export it with ScanNet's SensReader"),
}
"""Regular expression of the content of each format, and how to convert it."""
NO_CAMERAS = r'"camera_path"|"keyframes"'
"""Content of JSON files with paths for rendering, whose matrices belong to no photos."""


class PoseFile(NamedTuple):
    """File with camera poses: its path, its format, and how to convert it."""

    path: Path
    format: str
    advice: str


def pose_file(folder: Path, scenes: Sequence[Path] = ()) -> PoseFile | None:
    """Return a file with camera poses in `folder`, in its subfolders without the folders `scenes`,
    or next to `folder`, or None. A file next to `folder` must list its images."""
    names = [path.stem for path in image_files(folder)]
    above = folder.absolute().parent
    paths = [*_fewer(above, os.listdir(above))]
    for parent, folders, files in walk(folder):
        if len(parent.relative_to(folder).parts) >= DEPTH:
            folders.clear()
        paths += _fewer(parent, files)
    counts: Counter[Path] = Counter()
    for path in paths:
        if any(path.is_relative_to(scene) for scene in scenes):
            continue
        content = _head(path)
        if path.parent == above and sum(name in content for name in names) <= len(names) / 2:
            continue
        for name, (pattern, advice) in FORMATS.items():
            if re.search(pattern, content, re.MULTILINE | re.IGNORECASE | re.DOTALL):
                return PoseFile(path, name, advice)
        counts[path.parent] += _count_poses(path, content)
        if counts[path.parent] >= FEWEST:
            return PoseFile(path, "lists of camera matrices or trajectories", MATRICES)
    return None


def _fewer(folder: Path, names: Iterable[str]) -> Iterator[Path]:
    """Yield the files that may contain poses, at most `MAX_FILES` with the same extension."""
    counts: Counter[str] = Counter()
    for path in (folder / name for name in sorted(names)):
        suffix = path.suffix.lower()
        counts[suffix] += 1
        if suffix in SUFFIXES and counts[suffix] <= MAX_FILES and path.is_file():
            yield path


def _head(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES).decode("utf-8-sig", errors="replace")
    except OSError:
        return ""


def _count_poses(path: Path, content: str) -> int:
    """Return the number of different poses in a JSON file, or in a text that consists of poses."""
    if content.lstrip()[:1] in ("{", "["):
        if re.search(NO_CAMERAS, content):
            return 0
        try:
            found = list(_arrays(json.loads(path.read_text(encoding="utf-8-sig"))))
        except (OSError, ValueError, RecursionError):
            return 0
        return len({matrix.tobytes() for matrix in found if _is_pose(matrix)})
    numbers = _numbers(content)
    if numbers is None:
        return 0
    if _is_trajectory(numbers, path.suffix.lower()):
        return len(numbers)
    rows = [numbers.ravel()] if numbers.size in (12, 16) else numbers
    return len(rows) if all(_is_pose(row) for row in rows) else 0


def _arrays(value: Any) -> Iterator[np.ndarray]:
    """Yield all arrays of 12 or 16 numbers in a JSON value, and all rotation matrices with a
    position in the same object."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    flat = [_flat(part) for part in parts]
    sized = {len(numbers): numbers for numbers in flat}
    if isinstance(value, dict) and {3, 9} <= sized.keys():
        yield np.column_stack([np.reshape(sized[9], (3, 3)), sized[3]]).ravel()
    for part, numbers in zip(parts, flat, strict=True):
        if len(numbers) in (12, 16):
            yield np.array(numbers)
        else:
            yield from _arrays(part)


def _flat(value: Any) -> list[float]:
    """Return the numbers in a list, or in a list of lists, or nothing if it contains others."""
    rows = value if isinstance(value, list) else []
    numbers = [n for row in rows for n in (row if isinstance(row, list) else [row])]
    return [float(n) for n in numbers] if all(type(n) in (int, float) for n in numbers) else []


def _is_pose(numbers: np.ndarray) -> bool:
    """Return whether 12 or 16 numbers are the matrix of a pose that is not the identity."""
    if numbers.size not in (12, 16):
        return False
    matrix = numbers.reshape(-1, 4)
    if len(matrix) == 4 and not matrix[:3, 3].any():  # In column-major order.
        matrix = matrix.T
    rotation = matrix[:3, :3]
    error = np.abs(rotation @ rotation.T - np.eye(3)).max()
    is_padded = len(matrix) == 3 or np.array_equal(np.abs(matrix[3]), (0, 0, 0, 1))
    return bool(error < RIGID_WITHIN and is_padded and matrix[:3, 3].any())


def _is_trajectory(rows: np.ndarray, suffix: str) -> bool:
    """Return whether each row contains a time, a position, and a unit quaternion, or in a .traj
    file of ARKitScenes, a time, a rotation vector, and a position."""
    if len(rows) < FEWEST or not (np.diff(rows[:, 0]) > 0).all():
        return False
    if rows.shape[1] == 8:
        return bool((np.abs(np.linalg.norm(rows[:, 4:], axis=1) - 1) < RIGID_WITHIN).all())
    return rows.shape[1] == 7 and suffix == ".traj"


def _numbers(content: str) -> np.ndarray | None:
    """Return the numbers (rows, columns) in a text that contains nothing else, or None. The last
    row may be truncated."""
    lines = [line.strip() for line in content.splitlines()]
    rows = [re.split(r"[\s,;]+", line) for line in lines if line and line[0] != "#"]
    try:
        numbers = np.array(rows[: len(rows) - (len(content) >= MAX_BYTES)], np.float64)
    except ValueError:  # A word is no number, or the lengths of the rows differ.
        return None
    return numbers if len(numbers) else None
