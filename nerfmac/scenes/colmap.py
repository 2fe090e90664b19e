"""COLMAP's folders: a model in `sparse/0`, `sparse` or the folder itself, and its pictures.

Pictures without a camera are left out. The model's coordinates mean nothing, so the scene is
centred, levelled and scaled by its cameras, and is as large as its sparse points ask for.
"""

from __future__ import annotations

import logging
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nerfmac.common.checks import InputError
from nerfmac.geometry.lenses import Lens
from nerfmac.scenes.colmap_model import (
    ColmapCamera,
    ColmapImage,
    ColmapModel,
    count_images,
    is_model,
    read_model,
)
from nerfmac.scenes.options import SceneOptions
from nerfmac.scenes.picture_search import PictureSearch
from nerfmac.scenes.pictures import is_picture
from nerfmac.scenes.scene import Scene
from nerfmac.scenes.shots import Shot, headers_of, levelled

PLACES = (
    *("sparse", "colmap/sparse", "colmap_sparse", "colmap_text", "distorted/sparse"),
    *("dense/0/sparse", "dense/sparse", ""),
)
"""Where a scene's folder holds its models: here, or in a numbered folder here."""

TO_OPENGL = np.array([1.0, -1.0, -1.0])
"""What an axis of a camera is multiplied with: OpenCV's y points down and z forwards."""

FISHEYE = ("OPENCV_FISHEYE", "SIMPLE_RADIAL_FISHEYE", "RADIAL_FISHEYE")
READ = (
    *("SIMPLE_PINHOLE", "PINHOLE", "SIMPLE_RADIAL", "RADIAL", "OPENCV", "FULL_OPENCV"),
    *FISHEYE,
)

log = logging.getLogger("nerfmac")


def model_folder(folder: Path) -> Path | None:
    """Where the scene in `folder` has its COLMAP model; None if it has none.

    Of several models it is the one with the most pictures, as COLMAP starts a new one for pictures
    that do not fit the others.
    """
    for place in PLACES:
        below = folder / place
        numbered = sorted(below.glob("[0-9]")) + sorted(below.glob("[0-9][0-9]"))
        models = [each for each in (below, *numbered) if is_model(each)]
        if models:
            return max(models, key=count_images) if len(models) > 1 else models[0]
    return None


def scene_folder(path: Path) -> Path:
    """The folder of the scene, where `path` is that or its model, such as `scene/sparse/0`."""
    folder = path.absolute()
    if folder.name.isdigit() and folder.parent.name == "sparse":
        folder = folder.parent
    return folder.parent if folder.name == "sparse" else path


def read_colmap(folder: Path, model_in: Path, options: SceneOptions) -> Scene:
    """The scene in `folder` whose model is in `model_in`; see `load_scene` for InputError.

    Every 8th view by name is held out as "test", unless `options` say otherwise.
    """
    roots = (folder / "images", model_in / "images", model_in.parent / "images", folder / "input")
    try:
        model = read_model(model_in)
    except InputError as error:
        raise InputError(f"{error}{_remedy(roots)}") from error
    if not model.images:
        raise InputError(
            f"{model_in} has no registered picture: COLMAP found no camera's place{_remedy(roots)}"
        )
    search = PictureSearch(folder, roots=(*roots, *_reduced_in(folder)))
    found = search.find_all([image.name for image in model.images], str(model_in))
    there = [(image, path) for image, path in zip(model.images, found, strict=True) if path]
    if not there:
        raise InputError(
            f"none of the {len(found)} pictures of {model_in} exist; the first is "
            f"{model.images[0].name!r}, looked for in {folder}"
        )
    _say_what_is_left_out(model_in, model, [path for _, path in there])
    headers = headers_of([path for _, path in there])
    shots = []
    for (image, path), header in zip(there, headers, strict=True):
        where = f"camera {image.camera} of {model_in}"
        lens = lens_of(model.cameras[image.camera], where)
        shot = Shot.of(path, header, lens, camera_to_file(image), where)
        shots.append(shot._replace(name=image.name))
    points = model.points
    return levelled(folder, shots, headers=headers, points=points, options=options)


def _remedy(roots: Sequence[Path]) -> str:
    """What to do without the model, where there are pictures in one of `roots`; else nothing."""
    for place in roots:
        if place.is_dir() and any(is_picture(each.name) for each in place.iterdir()):
            return f"; `nerfmac capture {shlex.quote(str(place))}` finds the cameras anew"
    return ""


def _reduced_in(folder: Path) -> list[Path]:
    """Where there is no `images`, the folder `images_N` of the smallest N, with a line; or none."""
    if (folder / "images").is_dir():
        return []
    numbered = {each.name.removeprefix("images_"): each for each in folder.glob("images_*")}
    places = [numbered[n] for n in sorted(filter(str.isdecimal, numbered), key=int)][:1]
    for place in places:
        log.warning("there is no images in %s; %s is read", folder, place.name)
    return places


def _say_what_is_left_out(model_in: Path, model: ColmapModel, pictures: list[Path]) -> None:
    absent = len(model.images) - len(pictures)
    if absent:
        log.warning(
            "%d of %d pictures of %s do not exist; the other %d are used",
            *(absent, len(model.images), model_in, len(pictures)),
        )
    folders = {path.parent for path in pictures}
    files = [path for place in folders for path in place.iterdir() if is_picture(path.name)]
    without = len(files) - len(pictures)
    if without > 0:
        log.warning(
            "%d of %d pictures have no camera in %s and are left out", without, len(files), model_in
        )


def lens_of(camera: ColmapCamera, where: str) -> Lens:
    """The lens of a camera; raises InputError for a model, or a coefficient, that it cannot have.

    OpenCV's rational denominator, in FULL_OPENCV, must be 1.
    """
    given: dict[str, Any] = dict(camera.parameters)
    extra = {name: given.pop(name, 0.0) for name in ("d1", "d2", "d3")}
    if camera.model not in READ or any(extra.values()):
        raise InputError(
            f"{where} is of the model {camera.model}{' with a denominator' * any(extra.values())}; "
            f"expected one of {', '.join(READ)}: COLMAP's image_undistorter makes pictures "
            "and a model of PINHOLE cameras"
        )
    try:
        return Lens(camera.width, camera.height, **given, is_fisheye=camera.model in FISHEYE)
    except InputError as error:
        raise InputError(f"{where}: {error}") from error


def camera_to_file(image: ColmapImage) -> np.ndarray:
    """The pose of a registered picture, camera to file (3, 4), with OpenGL's axes."""
    rotation = image.pose[:, :3].T
    return np.column_stack([rotation * TO_OPENGL, -rotation @ image.pose[:, 3]])
