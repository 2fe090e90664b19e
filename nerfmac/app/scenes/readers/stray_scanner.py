"""Captures by the phone app Stray Scanner. Poses map camera to world coordinates with OpenCV axes.

A capture has a video `rgb.mp4`, the intrinsics matrix of its frames in `camera_matrix.csv`, and a
pose for each frame in `odometry.csv`, with the columns timestamp, frame, x, y, z, qx, qy, qz, and
qw. Newer files also contain the columns fx, fy, cx, and cy, the intrinsics of each frame. `depth`
contains an image per frame with the depth along the optical axis in millimeters, 256 x 192 for
frames of 1920 x 1440. `confidence` contains images with the values 0 to 2.
"""

import csv
import subprocess
from functools import partial
from pathlib import Path

from nerfmac.app.scenes import parsed_scene
from nerfmac.app.scenes.cache import unpacked
from nerfmac.app.scenes.depth_images import phone_depth
from nerfmac.app.scenes.images import inspect_all
from nerfmac.app.scenes.parsed_scene import OPENCV, ParsedScene, PosedImage, pose_of
from nerfmac.common import Float64Array, InputError, log, prefix_errors
from nerfmac.geometry import Lens

VIDEO, POSES, INTRINSICS = "rgb.mp4", "odometry.csv", "camera_matrix.csv"
COLUMNS = ("frame", "x", "y", "z", "qx", "qy", "qz", "qw")
LENS = ("fx", "fy", "cx", "cy")
"""Columns of newer files, because the phone changes its focus during a recording."""
DISTORTION = {"distortion_center_x", "distortion_center_y"}
"""Columns of the newest files. They are empty if the app has no lens distortion tables."""
MAX_FRAMES = 300
"""Maximum number of frames that are read from the video, evenly spaced. Videos have 60 frames per
second, most of which show nearly the same."""


def read_stray_scanner(folder: Path) -> ParsedScene:
    """Read the scene of a Stray Scanner capture. Frames of the video are stored in the cache."""
    if not (folder / VIDEO).is_file():
        raise InputError(f"{folder} has no {VIDEO}; copy the whole folder of Stray Scanner")
    rows = _poses(folder / POSES)
    step = -(-(max(rows) + 1) // MAX_FRAMES)
    write = partial(_write_frames, folder / VIDEO, step)
    frames = unpacked(folder / VIDEO, folder.resolve().name, write)
    written = sorted(frames.glob("*.jpg"))
    files = {int(path.stem): path for path in written if int(path.stem) in rows}
    if not files:
        raise InputError(f"{folder / VIDEO} has no frame with a pose in {folder / POSES}")
    wanted = [number for number in rows if number % step == 0]
    if missing := len(wanted) - len(files):
        log.warning(
            f"{missing} of {len(wanted)} poses in {folder / POSES} have no frame in {VIDEO}, which "
            "is shorter, and are skipped; copy the video again if it is incomplete"
        )
    matrix = parsed_scene.read_numbers(folder / INTRINSICS)
    if len(matrix) != 9:
        raise InputError(f"{folder / INTRINSICS} is not a 3x3 matrix; export the capture again")
    images = []
    for number, photo in inspect_all(files).items():
        where = f"{folder / POSES}, frame {number}"
        pose, own = rows[number]
        with prefix_errors(where if own else str(folder / INTRINSICS)):
            lens = Lens(*photo.size, *(own or matrix[[0, 4, 2, 5]].tolist()))
        depth = phone_depth(folder, f"{number:06d}")
        images.append(PosedImage.of(photo, where, lens, pose)._replace(depth=depth))
    return ParsedScene(str(folder), folder, images)


def _poses(path: Path) -> dict[int, tuple[Float64Array, list[float]]]:
    """Return the camera-to-world pose (3, 4) with OpenGL axes and the intrinsics of each frame, by
    frame number. Without columns for intrinsics, the intrinsics are an empty list."""
    poses = {}
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        table = csv.DictReader(file, skipinitialspace=True)
        names = [name.strip() for name in table.fieldnames or ()]
        if missing := [name for name in COLUMNS if name not in names]:
            raise InputError(f"{path} has no column {missing[0]}; expected {', '.join(COLUMNS)}")
        table.fieldnames = names
        for row in table:
            given = {name for name in names if (row[name] or "").strip()}
            if DISTORTION & given:
                raise InputError(
                    f"{path} contains lens distortion ({', '.join(sorted(DISTORTION & given))}), "
                    "which is not read; undistort the video, and leave these columns empty"
                )
            words = [row[name] or "" for name in COLUMNS]
            number, *values = parsed_scene.finite_numbers(words, path).tolist()
            pose = pose_of(values[:3], values[3:], f"{path}, frame {number:g}") * OPENCV
            own = [row[name] for name in LENS] if given.issuperset(LENS) else []
            poses[int(number)] = pose, parsed_scene.finite_numbers(own, path).tolist()
    if not poses:
        raise InputError(f"{path} contains no poses; export the capture again")
    return poses


def _write_frames(video: Path, step: int, folder: Path) -> None:
    """Write the frames 0, `step`, 2 `step`, and so on of a video to a folder."""
    import imageio_ffmpeg  # Imported lazily: only videos require it.

    log.info("extracting frames of %s", video)
    # The color matrix and the range are those of JPEG files.
    filters = f"select='not(mod(n,{step}))',scale=out_color_matrix=bt601:out_range=full"
    # The names of the frames are a pattern, so the path of the folder must not be a part of it.
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-i", f"file:{video.absolute()}"]
    command += ["-an", "-vf", f"{filters},format=yuvj444p", "-fps_mode", "passthrough", "-q:v", "1"]
    command += ["-qmin", "1", "-start_number", "0", "%06d.jpg"]
    null = subprocess.DEVNULL
    done = subprocess.run(command, stdin=null, capture_output=True, check=False, cwd=folder)
    files = sorted(folder.glob("*.jpg"), reverse=True)  # Each new number is not used yet.
    if not files:
        reason = " ".join(done.stderr.decode(errors="replace").strip().splitlines()[-1:])
        raise InputError(f"cannot decode {video}: {reason}; copy it from the phone again")
    for file in files:
        file.rename(folder / f"{int(file.stem) * step:06d}.jpg")
