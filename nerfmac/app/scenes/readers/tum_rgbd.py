"""TUM RGB-D benchmark (Sturm et al. 2012). Poses map camera to world coordinates with OpenCV axes.

`rgb.txt` and `depth.txt` list the time and the file name of each image, and each line of
`groundtruth.txt` contains a time, a position, and a quaternion x, y, z, w. An image belongs to the
depth image and the pose with the nearest time. Depth images are PNG files with 16 bits, and the
value 5000 means a depth of one meter along the optical axis. The files do not contain camera
intrinsics. nerfmac uses the published intrinsics of the camera in the name of the folder,
`freiburg1` to `freiburg3`, or the default intrinsics of the benchmark.
"""

from pathlib import Path

import numpy as np

from nerfmac.app.scenes.depth_images import SENSOR_RANGE, DepthImage
from nerfmac.app.scenes.image_search import ImageSearch
from nerfmac.app.scenes.images import inspect_all
from nerfmac.app.scenes.parsed_scene import OPENCV, ParsedScene, PosedImage, pose_of
from nerfmac.common import Float64Array, InputError, log
from nerfmac.geometry import Lens

IMAGES, DEPTHS, POSES = "rgb.txt", "depth.txt", "groundtruth.txt"
WITHIN = 0.02  # Maximum difference of times in seconds, as in the tools of the benchmark.
UNIT = 1.0 / 5000.0  # Meters per stored value.
SIZE = 640, 480
CAMERAS = {
    "freiburg1": Lens(
        *SIZE, 517.3, 516.5, 318.6, 255.3, 0.2624, -0.9531, 1.1633, 0, -0.0054, 0.0026
    ),
    "freiburg2": Lens(
        *SIZE, 520.9, 521.0, 325.1, 249.7, 0.2312, -0.7849, 0.9172, 0, -0.0033, -0.0001
    ),
    "freiburg3": Lens(*SIZE, 535.4, 539.2, 320.1, 247.6),
}
"""Published intrinsics of the color cameras, keyed by a part of the folder name."""
DEFAULT_CAMERA = Lens(*SIZE, 525.0, 525.0, 319.5, 239.5)


def read_tum_rgbd(folder: Path) -> ParsedScene:
    """Read the TUM RGB-D scene in `folder`."""
    listed, poses = _rows(folder / IMAGES, 2), _rows(folder / POSES, 8)
    depths = _rows(folder / DEPTHS, 2) if (folder / DEPTHS).is_file() else []
    pose_times, depth_times = (np.array([float(t) for t, *_ in rows]) for rows in (poses, depths))
    timed = [(row, _nearest(pose_times, float(row[0]))) for row in listed]
    posed = [(row, poses[index]) for row, index in timed if index is not None]
    if not posed:
        apart = f"no image in {folder / IMAGES} has a pose in {folder / POSES} within {WITHIN} s"
        raise InputError(f"{apart}; the times of both files must be from the same clock")
    if len(posed) < len(listed):
        count = len(listed) - len(posed)
        log.warning("%d of %d images of %s have no pose", count, len(listed), folder)
    found = ImageSearch(folder).existing([row[1] for row, _ in posed], str(folder / IMAGES))
    images, folder_name = [], folder.resolve().name.lower()
    lens = next((lens for key, lens in CAMERAS.items() if key in folder_name), DEFAULT_CAMERA)
    for index, photo in inspect_all(found).items():
        time, numbers = posed[index][0][0], [float(value) for value in posed[index][1][1:]]
        where = f"{folder / POSES}, time {time}"
        pose = pose_of(numbers[:3], numbers[3:], where) * OPENCV
        nearest, depth = _nearest(depth_times, float(time)), None
        if nearest is not None and (folder / depths[nearest][1]).is_file():
            depth = DepthImage(folder / depths[nearest][1], UNIT, farthest=SENSOR_RANGE)
        images.append(PosedImage.of(photo, where, lens, pose)._replace(depth=depth))
    return ParsedScene(str(folder), folder, images)


def _rows(path: Path, columns: int) -> list[list[str]]:
    """Return the columns of each line that is not a comment, the first of which is a time."""
    rows = []
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not a text file: {error}") from error
    for number, line in enumerate(lines, 1):
        row = line.split()
        if not row or row[0].startswith("#"):
            continue
        try:
            numbers = [float(value) for value in (row if columns > 2 else row[:1])]
        except ValueError:
            numbers = [float("nan")]
        if len(row) != columns or not np.isfinite(numbers).all():
            expected = f"{columns} columns, {EXPECTED[columns]}"
            raise InputError(f"{path}, line {number}: expected {expected}")
        rows.append(row)
    return sorted(rows, key=lambda row: float(row[0]))


EXPECTED = {2: "a time and a file name", 8: "a time, a position, and a quaternion"}


def _nearest(times: Float64Array, time: float) -> int | None:
    """Return the index of the nearest time, or None if the difference is more than `WITHIN`."""
    if not len(times):
        return None
    after = int(np.searchsorted(times, time))
    near = [index for index in (after - 1, after) if 0 <= index < len(times)]
    best = min(near, key=lambda index: abs(times[index] - time))
    return best if abs(times[best] - time) <= WITHIN else None
