"""Writers of captures with depth images, in the layouts of the programs that write them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from zipfile import ZipFile

import imageio_ffmpeg
import lzfse
import numpy as np
import OpenEXR
from PIL import Image

from nerfmac.app.paths.curve import quaternions
from nerfmac.geometry import Camera, Lens

OPENCV = (1.0, -1.0, -1.0, 1.0)  # factors of the columns of a pose with OpenGL axes


class Captured(NamedTuple):
    """Photo uint8 (h, w, 3), depth in meters (dh, dw), confidence 0 to 2 (dh, dw), and
    camera-to-world pose (3, 4) with OpenGL axes."""

    photo: np.ndarray
    depth: np.ndarray
    confidence: np.ndarray
    pose: np.ndarray


def quaternion(pose: np.ndarray) -> list[float]:
    """x, y, z, w"""
    w, x, y, z = quaternions(pose[None, :, :3])[0]
    return [float(value) for value in (x, y, z, w)]


def save(path: Path, values: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".exr":
        header = {"compression": OpenEXR.ZIP_COMPRESSION, "type": OpenEXR.scanlineimage}
        OpenEXR.File(header, {"R": values.astype(np.float32)}).write(str(path))
    elif path.suffix in (".depth", ".conf"):
        kind = np.float32 if path.suffix == ".depth" else np.uint8
        path.write_bytes(lzfse.compress(values.astype(kind).tobytes()))
    else:
        Image.fromarray(values).save(path)


def in_units(depth: np.ndarray, per_meter: float) -> np.ndarray:
    return np.rint(depth * per_meter).astype(np.uint16)


def write_json(path: Path, values: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(values))


def record3d_metadata(views: Sequence[Captured], lens: Lens) -> dict[str, object]:
    dh, dw = views[0].depth.shape
    return {
        "w": lens.width,
        "h": lens.height,
        "dw": dw,
        "dh": dh,
        "K": [lens.fl_x, 0, 0, 0, lens.fl_y, 0, lens.cx, lens.cy, 1],
        "poses": [[*quaternion(view.pose), *view.pose[:, 3].tolist()] for view in views],
    }


def record3d(folder: Path, views: Sequence[Captured], lens: Lens) -> Path:
    """An export with EXR files."""
    for index, view in enumerate(views):
        save(folder / f"rgb/{index}.png", view.photo)
        save(folder / f"depth/{index}.exr", view.depth)
    write_json(folder / "metadata.json", record3d_metadata(views, lens))
    return folder


def record3d_archive(folder: Path, views: Sequence[Captured], lens: Lens) -> Path:
    for index, view in enumerate(views):
        save(folder / f"rgbd/{index}.png", view.photo)
        save(folder / f"rgbd/{index}.depth", view.depth)
        save(folder / f"rgbd/{index}.conf", view.confidence)
    write_json(folder / "metadata", record3d_metadata(views, lens))
    path = folder / "scan.r3d"
    with ZipFile(path, "w") as archive:
        for file in [folder / "metadata", *sorted((folder / "rgbd").iterdir())]:
            archive.write(file, file.relative_to(folder))
    return path


def polycam(folder: Path, views: Sequence[Captured], lens: Lens) -> Path:
    for index, view in enumerate(views):
        name = f"keyframes/{{}}/{20517000 + 37 * index}"
        save(folder / f"{name.format('images')}.png", view.photo)
        save(folder / f"{name.format('depth')}.png", in_units(view.depth, 1000))
        levels = np.array([0, 127, 255], np.uint8)[view.confidence]
        save(folder / f"{name.format('confidence')}.png", levels)
        values = {"fx": lens.fl_x, "fy": lens.fl_y, "cx": lens.cx, "cy": lens.cy}
        values |= {"width": lens.width, "height": lens.height}
        values |= {f"t_{i}{j}": float(view.pose[i, j]) for i in range(3) for j in range(4)}
        write_json(folder / f"{name.format('cameras')}.json", values)
    return folder


def transforms(
    folder: Path, views: Sequence[Captured], lens: Lens, key: str, per_meter: float, **top: object
) -> Path:
    frames = []
    for index, view in enumerate(views):
        image, depth = f"images/{index:03d}.png", f"depth/{index:03d}.png"
        save(folder / image, view.photo)
        save(folder / depth, in_units(view.depth, per_meter))
        matrix = [*view.pose.tolist(), [0.0, 0.0, 0.0, 1.0]]
        frames.append({"file_path": image, key: depth, "transform_matrix": matrix})
    values = {"w": lens.width, "h": lens.height, "fl_x": lens.fl_x, "fl_y": lens.fl_y}
    values |= {"cx": lens.cx, "cy": lens.cy, **top, "frames": frames}
    write_json(folder / "transforms.json", values)
    return folder


def nerfstudio(folder: Path, views: Sequence[Captured], lens: Lens, **top: object) -> Path:
    return transforms(folder, views, lens, "depth_file_path", 1000, **top)


def instant_ngp(folder: Path, views: Sequence[Captured], lens: Lens, **top: object) -> Path:
    """As NeRFCapture writes it."""
    scale = {"enable_depth_loading": True, "integer_depth_scale": 10 / 65535}
    placed = {"aabb_scale": 4, "scale": 0.5, "offset": [0.5, 0.5, 0.5]}
    return transforms(folder, views, lens, "depth_path", 6553.5, **{**scale, **placed, **top})


def stray_scanner(folder: Path, views: Sequence[Captured], lens: Lens) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    size = lens.width, lens.height
    video = imageio_ffmpeg.write_frames(
        str(folder / "rgb.mp4"), size, fps=60, quality=10, macro_block_size=1
    )
    video.send(None)
    rows = ["timestamp, frame, x, y, z, qx, qy, qz, qw"]
    for index, view in enumerate(views):
        video.send(np.ascontiguousarray(view.photo))
        save(folder / f"depth/{index:06d}.png", in_units(view.depth, 1000))
        save(folder / f"confidence/{index:06d}.png", view.confidence.astype(np.uint8))
        pose = view.pose * OPENCV
        numbers = [*pose[:, 3].tolist(), *quaternion(pose)]
        rows.append(", ".join([f"{index / 60:.4f}", f"{index:06d}", *map(str, numbers)]))
    video.close()
    (folder / "odometry.csv").write_text("\n".join(rows))
    matrix = [[lens.fl_x, 0, lens.cx], [0, lens.fl_y, lens.cy], [0, 0, 1]]
    (folder / "camera_matrix.csv").write_text("\n".join(", ".join(map(str, r)) for r in matrix))
    return folder


WRITERS = {
    "record3d": record3d,
    "record3d_archive": record3d_archive,
    "polycam": polycam,
    "nerfstudio": nerfstudio,
    "instant_ngp": instant_ngp,
    "stray_scanner": stray_scanner,
}

LENS = Lens(32, 24, 525 / 20, 525 / 20, 319.5 / 20, 239.5 / 20)
DEPTH_SIZE = 16, 12
LOW, HIGH = np.array([-1.6, -1.3, 0.0]), np.array([1.7, 1.2, 2.3])


def box_views(count: int = 9, lens: Lens = LENS, *, spread: float = 0.3) -> list[Captured]:
    """Views from an ellipse of radius `spread` inside a box.
    The last column of each depth image has a low confidence."""
    views = []
    for index in range(count):
        angle = 2.4 * index
        height = 1.0 + 0.05 * (index % 9)
        eye = np.array([spread * np.cos(angle), 0.7 * spread * np.sin(angle), height])
        target = eye + np.array([np.cos(angle), np.sin(angle), 0.2 * np.sin(3.0 * index)])
        pose = Camera.look_at(eye, target, (0, 0, 1), lens).pose.astype(float)
        points, _ = box_points(pose, lens)
        photo = np.clip(40 + 50 * (points - LOW), 0, 255).astype(np.uint8)
        _, depth = box_points(pose, lens.scaled(*DEPTH_SIZE))
        confidence = np.full(depth.shape, 2)
        confidence[:, -1] = 0
        views.append(Captured(photo, depth.astype(np.float32), confidence, pose))
    return views


def box_points(pose: np.ndarray, lens: Lens) -> tuple[np.ndarray, np.ndarray]:
    """Points (h, w, 3) on the box that the pixels show, and their depths (h, w) along the axis."""
    row, column = np.mgrid[: lens.height, : lens.width] + 0.5
    local = [(column - lens.cx) / lens.fl_x, (lens.cy - row) / lens.fl_y, -np.ones_like(row)]
    ray, eye = np.stack(local, axis=-1) @ pose[:, :3].T, pose[:, 3]
    with np.errstate(divide="ignore"):
        away = np.maximum((LOW - eye) / ray, (HIGH - eye) / ray).min(axis=-1)
    return eye + away[..., None] * ray, away


def map_of(maps, index):
    """The distances and the confidences, in [0, 1], of a view, both (h, w)."""
    first, height, width = (int(value) for value in np.array(maps.places[index]))
    part = slice(first, first + height * width)
    distance = np.array(maps.distances[part]).reshape(height, width)
    confidence = np.array(maps.confidences[part]).reshape(height, width)
    return distance, (confidence / 255).astype(np.float32)
