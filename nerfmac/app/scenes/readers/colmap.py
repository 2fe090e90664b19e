"""COLMAP scenes, with a model in `sparse/0`, in `sparse`, or in another folder, and its images.

Images without a camera are skipped.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

import numpy as np

from nerfmac.app.scenes.image_search import ImageSearch
from nerfmac.app.scenes.images import image_files, inspect_all, is_image, same_aspect
from nerfmac.app.scenes.parsed_scene import ParsedScene, PosedImage
from nerfmac.app.scenes.readers.colmap_model import (
    ColmapImage,
    ColmapModel,
    count_images,
    read_model,
)
from nerfmac.app.scenes.readers.pose_files import MAX_BYTES
from nerfmac.common import InputError, log, name_key, walk
from nerfmac.geometry import Placement, Tracks

USUAL_FOLDERS = ("sparse", "")
"""Folders in a scene that usually contain a model or numbered model folders."""
DEPTH = 4
"""Number of levels of folders in which other models are searched, such as
camera_calibration/aligned/sparse/0 of Hierarchical 3DGS."""
IMAGE_NAME = re.compile(rb"[^\s\0/\\]+(?=\.(?:jpe?g|png|tiff?|webp|bmp|heic)\b)", re.IGNORECASE)
"""Last word of an image name in a file of a model, without the file extension."""
MIN_CAMERAS = 3  # Minimum number of cameras for aligning two coordinate systems.
ALIGNED_WITHIN = 1e-3
"""Maximum difference between aligned cameras, in radians and relative to their extent."""


def model_folder(folder: Path) -> Path | None:
    """Return the folder with the COLMAP model of the scene in `folder`, or None if the scene has no
    model. If there are several models, the model with the most images is returned. COLMAP creates
    additional models for images that it cannot connect to the other images."""
    models = _models_of(folder)
    return max(models, key=count_images) if len(models) > 1 else next(iter(models), None)


def is_model(folder: Path) -> bool:
    """Return whether `folder` contains the binary or text files of a model."""
    return any(
        (folder / f"cameras.{extension}").is_file() and (folder / f"images.{extension}").is_file()
        for extension in ("bin", "txt")
    )


def model_of(folder: Path) -> tuple[Path, Path] | None:
    """Return the scene folder and the model folder of the COLMAP scene in `folder`, or None."""
    model = model_folder(folder)
    return None if model is None else (scene_folder(folder), model)


def usual_models(folder: Path) -> list[Path]:
    """Return the folders with the models in the usual folders of the scene in `folder`."""
    for name in USUAL_FOLDERS:
        below = folder / name
        numbered = sorted(below.glob("[0-9]")) + sorted(below.glob("[0-9][0-9]"))
        if models := [path for path in (below, *numbered) if is_model(path)]:
            return models
    return []


def _models_of(folder: Path) -> list[Path]:
    """Return the folders with the models of the scene in `folder`."""
    if models := usual_models(folder):
        return models
    for parent, folders, names in walk(folder):
        # An unfinished capture contains models that have not been judged yet.
        if len(parent.relative_to(folder).parts) >= DEPTH or "capture.json" in names:
            folders.clear()
        if is_model(parent) and parent != folder and _is_whole(folder, scene_folder(parent)):
            siblings = sorted(parent.parent.iterdir()) if parent.name.isdecimal() else [parent]
            return [path for path in siblings if is_model(path)]
    return []


def _is_whole(folder: Path, scene: Path) -> bool:
    """Return whether all images in `folder` are in the scene folder `scene`."""
    images = [parent for parent, _, names in walk(folder.absolute()) if any(map(is_image, names))]
    return bool(images) and all(parent.is_relative_to(scene) for parent in images)


def shows_images_in(model: Path, folder: Path) -> bool:
    """Return whether a model lists images that are in `folder` or its subfolders."""
    for extension in ("bin", "txt"):
        if (path := model / f"images.{extension}").is_file():
            with path.open("rb") as file:
                listed = {*IMAGE_NAME.findall(file.read(MAX_BYTES))}
            files = (name for _, _, names in walk(folder) for name in names)
            return any(listed.intersection(IMAGE_NAME.findall(name.encode())) for name in files)
    return False


def scene_folder(path: Path) -> Path:
    """Return the scene folder for `path`, which is the scene folder itself or a model folder such
    as `sparse/0`: the innermost folder that contains the images of the model."""
    if is_model(path):
        for folder in (path.absolute(), *path.absolute().parents[:DEPTH]):
            if shows_images_in(path, folder):
                return folder
    return path


def read_colmap(folder: Path, model_path: Path) -> ParsedScene:
    """Read a COLMAP scene, in the world coordinates of the COLMAP model."""
    models = _models_of(folder)
    if len(models) > 1:
        unused = [path for path in models if path != model_path]
        others = ", ".join(f"{path} ({count_images(path)})" for path in unused)
        used = f"using the COLMAP model {model_path} with {count_images(model_path)} images"
        log.warning(f"{used}; the images of other models are skipped: {others}")
    roots = [folder / "images", model_path / "images", model_path.parent / "images"]
    roots.append(folder / "input")
    try:
        model = read_model(model_path)
        if not model.images:
            reason = "because COLMAP found no camera pose"
            raise InputError(f"{model_path} has no registered images, {reason}")
    except InputError as error:
        raise InputError(f"{error}{_remedy(roots)}") from error
    search = ImageSearch(folder, roots=(*roots, *_reduced_in(folder)))
    found = search.existing([entry.name for entry in model.images], str(model_path))
    images = []
    for index, photo in inspect_all(found).items():
        entry = model.images[index]
        where = f"camera {entry.camera} of {model_path}"
        lens = model.cameras[entry.camera].lens(where)
        images.append(PosedImage.of(photo, where, lens, entry.camera_to_file, entry.name))
    tracks = tracks_of(model, [model.images[index] for index in found], images)
    return ParsedScene(str(folder), folder, images, points=model.points, tracks=tracks)


def _remedy(roots: Sequence[Path]) -> str:
    """Suggest a command that replaces a broken model, if a folder in `roots` contains images."""
    for root in roots:
        if image_files(root):
            command = f"nerfmac capture {shlex.quote(str(root))} --estimate"
            return f"; run `{command}` to estimate the cameras again"
    return ""


def _reduced_in(folder: Path) -> list[Path]:
    """If there is no folder `images`, return a list with the folder `images_N` with the smallest N,
    if any."""
    if (folder / "images").is_dir():
        return []
    numbered = {path.name.removeprefix("images_"): path for path in folder.glob("images_*")}
    folders = [numbered[n] for n in sorted(filter(str.isdecimal, numbered), key=int)][:1]
    for reduced in folders:
        log.warning(f"no folder images in {folder}; using {reduced.name}")
    return folders


def tracks_of(
    model: ColmapModel, entries: Sequence[ColmapImage | None], images: Sequence[PosedImage]
) -> Tracks | None:
    """Convert the observations of a COLMAP model to tracks in its world coordinates, or None if
    there are no observations. `entries` are the model entries of the images, or None for images
    that are not in the model. The images may be smaller than the images of the model."""
    order = np.argsort(model.numbers)
    numbers = model.numbers[order]
    views, pixels, points = [], [], []
    for index, (entry, image) in enumerate(zip(entries, images, strict=True)):
        if entry is None or not len(entry.points) or not len(numbers):
            continue
        camera, lens = model.cameras[entry.camera], image.lens
        if not same_aspect(lens.size, (camera.width, camera.height)):  # Cropped or rotated.
            continue
        position = np.minimum(np.searchsorted(numbers, entry.points), len(numbers) - 1)
        is_known = numbers[position] == entry.points
        pixels.append(entry.pixels[is_known] * (lens.width / camera.width))
        points.append(order[position[is_known]])
        views.append(np.full(len(points[-1]), index))
    if not views:
        return None
    error = np.where(np.isfinite(model.errors), np.maximum(model.errors, 0.0), 0.0)
    view, pixel, point = (np.concatenate(parts) for parts in (views, pixels, points))
    return Tracks(view, pixel, point, model.points, error)


def points_beside(
    folder: Path, images: Sequence[PosedImage]
) -> tuple[np.ndarray | None, Tracks | None]:
    """Return the sparse points (n, 3) and the tracks of the COLMAP model in `folder`, in the
    coordinates of the image poses.

    `nerfmac capture` and nerfstudio's `ns-process-data` create `transforms.json` from a COLMAP
    model and store both. The cameras of the model are matched to the images by file name and
    determine the transform between the two coordinate systems. If there is no valid model, or its
    cameras differ from the poses of the images, the result is (None, None), and the reason is
    logged.
    """
    path = model_folder(folder)
    if path is None:
        return None, None
    try:
        model = read_model(path)
    except InputError as error:
        log.warning(f"{error}; continuing without its sparse points")
        return None, None
    entries = _by_name(model.images, images)
    found = {view: entry for view, entry in enumerate(entries) if entry is not None}
    alignment = _alignment(found, images)
    if alignment is None:
        log.info(f"the cameras in {path} differ from the scene cameras; ignoring its points")
        return None, None
    tracks = tracks_of(model, entries, images)
    return alignment.to_scene(model.points), tracks and tracks.transformed(alignment)


def _by_name(
    entries: Sequence[ColmapImage], images: Sequence[PosedImage]
) -> list[ColmapImage | None]:
    """Return the model entry with the file name of each image, or None without a unique match."""
    by_name: dict[str, ColmapImage | None] = {}
    for entry in entries:
        name = name_key(PurePosixPath(entry.name.replace("\\", "/")).name)
        by_name[name] = None if name in by_name else entry
    return [by_name.get(name_key(PurePosixPath(image.name).name)) for image in images]


def _alignment(
    entries: Mapping[int, ColmapImage], images: Sequence[PosedImage]
) -> Placement | None:
    """Return the similarity transform from model coordinates to the coordinates of the image poses.
    Camera rotations determine the rotation (orthogonal Procrustes problem), and positions determine
    the scale and the offset. The result is None if the cameras do not match."""
    if len(entries) < MIN_CAMERAS:
        return None
    poses = np.stack([entry.camera_to_file for entry in entries.values()])
    wanted = np.stack([images[view].pose for view in entries])
    u, _, v = np.linalg.svd(np.einsum("nij,nkj->ik", wanted[:, :, :3], poses[:, :, :3]))
    rotation = u @ v
    eyes, targets = poses[:, :, 3] @ rotation.T, wanted[:, :, 3]
    eyes_from, targets_from = eyes - eyes.mean(0), targets - targets.mean(0)
    spread = float(np.square(eyes_from).sum())
    if spread <= 0.0:
        return None
    scale = float((eyes_from * targets_from).sum()) / spread
    misfit = np.abs(scale * eyes_from - targets_from).max()
    turn = np.abs(rotation @ poses[:, :, :3] - wanted[:, :, :3]).max()
    if scale <= 0 or max(turn, misfit / np.abs(targets_from).max()) > ALIGNED_WITHIN:
        return None
    return Placement(scale, targets.mean(0) - scale * eyes.mean(0), 1.0, rotation)
