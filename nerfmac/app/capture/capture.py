"""`capture_scene`: a video or a folder of photos in, a scene with its cameras out."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from nerfmac.app.capture.fold_check import FoldCheck
from nerfmac.app.capture.inputs import (
    LEAST_35MM,
    MOST_35MM,
    CapturedImage,
    choose_frames,
    focal_in_pixels,
    images_in,
    is_input,
    is_video,
    refuse_unsupported,
    take_frames,
    take_images,
    unsupported_in,
)
from nerfmac.app.capture.missing import missing_images
from nerfmac.app.capture.scene_files import write_scene
from nerfmac.app.capture.source_files import changes, digests_of, without_copies
from nerfmac.app.capture.steps import step_name
from nerfmac.app.capture.structure import Solver, Structure
from nerfmac.app.capture.video import report_colors
from nerfmac.app.scenes import holds_scene, load_scene
from nerfmac.app.scenes.diagram import draw_scene
from nerfmac.app.scenes.images import is_cut_out, unsupported
from nerfmac.app.scenes.masks import masks_of, report_masks
from nerfmac.app.scenes.readers.transforms import FILE_NAME
from nerfmac.app.scenes.record import refuse_run
from nerfmac.common import checks
from nerfmac.common.checks import InputError
from nerfmac.common.files import (
    appearing,
    check_free,
    make_folder,
    read_json,
    user_path,
    write_json,
)
from nerfmac.common.installing import install
from nerfmac.common.json_reader import read_fields
from nerfmac.common.lock import locked

HOME = Path("captures")
"""Default folder of captured scenes, in the working folder."""
RECORD, WORK, IMAGES = "capture.json", "capture", "images.json"
MATCHING = ("auto", "sequential", "exhaustive", "window")
CHANGEABLE = {"matching", "focal_35mm"}
"""Options that may change when an unfinished capture goes on: they do not affect its images."""
FEWEST = 3
"""Smallest number of images in a capture."""
TOO_FEW = 1 / 3
"""A capture fails if less than this fraction of its images get a camera."""
FOLDED = 2
"""Number of folded pairs (`capture.fold_check`) from which `--matching auto` refuses a capture. One
pair alone may be a stray camera."""

log = logging.getLogger("nerfmac")


def captured(path: Path) -> Path:
    """The path of the scene at `path`; a video or photos there are captured first."""
    path = path.expanduser()
    refuse_run(path)
    if holds_scene(path):
        return path
    refuse_unsupported(path)
    if not is_input(path):
        return path
    out = HOME / path.resolve().stem
    kind = "a video" if is_video(path) else "a folder of photos alone"
    log.warning("%s is %s: finding its cameras; the scene goes to %s", path, kind, out)
    return capture_scene(path, out)


def capture_scene(
    source: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    *,
    longest_side: int = 1920,
    frames: int | None = None,
    matching: str = "auto",
    focal_35mm: float | None = None,
    progress: bool = True,
) -> Path:
    """Find the cameras of a video or of photos; returns the scene's folder.

    Args:
        source: a video, or a folder of photos.
        out: the scene's folder; by default captures/NAME in the working folder. It gets `images`,
            `transforms.json`, `points.ply`, `cameras.png`, the report `capture.json`, and COLMAP's
            model in `sparse/0`.
        longest_side: longest side of the images in pixels; larger ones are reduced.
        frames: approximate number of frames to take from a video; by default its motion decides.
        matching: pairs of images to match. `sequential`: each with the 10 that follow it and,
            once cameras are known, with those nearby. `exhaustive`: all pairs. `window`: each with
            the 40 that follow it. `auto`: `sequential` for a video, and for photos whose names
            follow a walk. If these do not, or if cameras are then missing or contradict the order,
            `exhaustive` (`window` from 100 images on). Of two results, the one with more cameras
            that agree with the order is kept.
        focal_35mm: 35 mm equivalent focal length of every image, in millimeters. By default
            EXIF's; for images without it, several guesses are tried on a few images.
        progress: show a bar for each stage.

    The same call continues an interrupted capture, and returns at once if it is finished. A refused
    or interrupted one continues with another `matching` or `focal_35mm` too.

    Raises InputError without pycolmap, for an unfit source or `out`, if too few images get a
    camera, and if the cameras are probably wrong: the focal length is neither in EXIF nor clear
    from the images, or `auto` finds only cameras that contradict the order of names.
    """
    source = user_path(source)
    _check(source, longest_side, frames, matching, focal_35mm)
    need_pycolmap()
    folder = user_path(out) if out is not None else HOME / source.resolve().stem
    options: dict[str, Any] = {
        "source": str(source.resolve()),
        "longest_side": int(longest_side),
        "frames": frames,
        "matching": matching,
        "focal_35mm": focal_35mm,
    }

    def bar(name: str, total: int | None) -> Any:
        return tqdm(
            total=total, desc=step_name(name, of_video=is_video(source)), disable=not progress
        )

    try:
        options["files"] = _digests(source)
        if _is_done(folder, options):
            _remove_work(folder)  # a process that was killed as it did so has left some
            log.info("%s holds this capture already", folder)
            return folder
        chosen = _choose(source, folder, options, bar)
        make_folder(folder)
        with locked(folder):
            _begin(folder, options)
            images = _images(source, chosen, folder, options, bar)
            if matching == "auto" and is_video(source):
                matching = "sequential"
            structure = Solver(folder / WORK, folder / "images", images, bar).solve(matching)
            _finish(folder, options, images, structure)
    except KeyboardInterrupt as interruption:
        kept = f"finished work is in {folder}; the same command continues it"
        raise KeyboardInterrupt(kept if folder.exists() else "nothing is kept") from interruption
    return folder


def need_pycolmap() -> None:
    """Raise `InputError` unless pycolmap is installed; does not import it."""
    if find_spec("pycolmap") is None:
        raise InputError(
            "pycolmap is not installed; finding cameras needs the extra capture: "
            f"{install('capture')}"
        )


def _check(
    source: Path, longest_side: int, frames: int | None, matching: str, focal_35mm: float | None
) -> None:
    """Raise InputError for arguments of `capture_scene` that are out of range."""
    checks.number("longest_side", longest_side, low=64, whole=True)
    checks.choice("matching", matching, MATCHING)
    if frames is not None:
        checks.number("frames", frames, low=FEWEST, whole=True)
    refuse_run(source)
    if source.is_dir() and holds_scene(source):
        raise InputError(
            f"{source} is a scene, whose cameras are known: `nerfmac train {source}` trains on it; "
            "to find them anew, name a folder that holds its images alone"
        )
    if focal_35mm is not None:
        checks.number("focal_35mm", focal_35mm, low=LEAST_35MM, high=MOST_35MM)
    refuse_unsupported(source)
    if not is_input(source):
        state = f"does not exist in {Path.cwd()}"
        if source.exists():
            is_folder = source.is_dir()
            state = "holds no photos" if is_folder else "is neither a video nor a folder"
        raise InputError(f"{source} {state}; name a video, or a folder with photos in it")


def _is_done(folder: Path, options: dict[str, Any]) -> bool:
    """Whether `folder` holds this capture, finished. Raises InputError if it holds another."""
    record = folder / RECORD
    if not record.is_file():
        check_free(folder)
        return False
    known = read_fields(record).values
    changed = {key for key, value in options.items() if known.get(key) != value}
    is_done = (folder / FILE_NAME).is_file() and "registered" in known
    if changed - CHANGEABLE - {"files"} or (changed - {"files"} and is_done):
        raise InputError(
            f"{folder} holds a capture of {known.get('source')} with other options; name another "
            "folder with --out, or remove this one"
        )
    if "files" in changed and is_done:
        raise InputError(
            f"{folder} holds a capture of {options['source']}, which has changed since: "
            f"{_changed_files(record, options)}; to "
            f"capture it anew, remove {folder} or name another folder with --out; to train on the "
            f"earlier capture: `nerfmac train {folder}`"
        )
    return is_done


def _changed_files(record: Path, options: dict[str, Any]) -> str:
    """The files of the source that have changed since the `record`; empty without a record."""
    if not record.is_file():
        return ""
    known = read_fields(record).values.get("files")
    return changes(known if isinstance(known, dict) else {}, options["files"])


def _remove_work(folder: Path) -> None:
    shutil.rmtree(folder / WORK, ignore_errors=True)


def _begin(folder: Path, options: dict[str, Any]) -> None:
    """Write the record of a capture before anything else, so that a killed one continues.

    If `CHANGEABLE` options of an unfinished capture differ, all but its images is removed. If
    files of the source have changed, the capture starts anew.
    """
    record, work = folder / RECORD, folder / WORK
    if what := _changed_files(record, options):
        log.warning("%s has changed: %s; its capture starts anew", options["source"], what)
        for path in (work, folder / "images", folder / "masks"):
            shutil.rmtree(path, ignore_errors=True)
    if record.is_file() and read_json(record) != options and work.is_dir():
        for path in work.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name != IMAGES:
                path.unlink()
    write_json(record, options)


def _digests(source: Path) -> dict[str, str]:
    """The digests of a video, or of photos and their masks."""
    if is_video(source):
        return digests_of([source], source.parent)
    photos = images_in(source)
    return digests_of([*photos, *masks_of(photos, source).values()], source)


def _choose(
    source: Path, folder: Path, options: dict[str, Any], bar: Any
) -> list[Path] | list[int]:
    """Photos, or numbers of a video's frames, to capture; none if `folder` has their images.

    Raises InputError if they are too few.
    """
    record = folder / RECORD
    if (folder / WORK / IMAGES).is_file() and not _changed_files(record, options):
        return []
    if is_video(source):
        with bar("frames", None) as counting:
            return choose_frames(source, options["frames"], counting)
    paths = without_copies(images_in(source), source, options["files"])
    if len(paths) < FEWEST:
        raise InputError(
            f"{source} has {len(paths)} image{'s'[: len(paths) > 1]}; expected at "
            "least three that overlap, better 30 or more from all sides"
        )
    return paths


def _images(
    source: Path, chosen: Sequence[Any], folder: Path, options: dict[str, Any], bar: Any
) -> list[CapturedImage]:
    """The images in the capture's folder `images`, made of the `chosen` unless they are there.

    The option `focal_35mm` replaces their focal lengths. Raises InputError if they are too few.
    """
    list_file = folder / WORK / IMAGES
    if list_file.is_file():
        images = [CapturedImage(**values) for values in read_json(list_file)]
    else:
        images = _make_images(source, chosen, folder, options["longest_side"], bar)
        write_json(list_file, [image._asdict() for image in images])
    if millimeters := options["focal_35mm"]:
        images = [
            image._replace(focal=focal_in_pixels(millimeters, image.width, image.height))
            for image in images
        ]
    return images


def _make_images(
    source: Path, chosen: Sequence[Any], folder: Path, longest: int, bar: Any
) -> list[CapturedImage]:
    image_folder = folder / "images"
    make_folder(folder / WORK)
    make_folder(image_folder)
    if is_video(source):
        report_colors(source)
    with bar("images", None) as counting:
        if is_video(source):
            images = take_frames(source, chosen, image_folder, longest, counting)
        else:
            stems = {path.stem for path in chosen}
            left = [path for path in unsupported_in(source) if path.stem not in stems]
            if left:
                log.warning("%s; they are skipped", unsupported(left[0], len(left)))
            masks = masks_of(chosen, source)
            report_masks(masks, chosen, source)
            images = take_images(list(chosen), image_folder, longest, counting, masks)
    if len(images) < FEWEST:
        raise InputError(f"{source} gives {len(images)} images; expected {FEWEST} or more")
    return images


def _finish(
    folder: Path, options: dict[str, Any], images: Sequence[CapturedImage], structure: Structure
) -> None:
    """Write the scene and its report, and remove the files that resuming would need."""
    total, registered = len(images), len(structure.model.images)
    if registered < max(FEWEST, TOO_FEW * total):
        raise InputError(
            f"only {registered} of {total} images overlap: move the camera more slowly or take "
            "more images, keep most of each in the next, walk around rather than turn on the spot, "
            "and avoid bare walls, glass and blur"
        )
    names = [image.name for image in images]
    with_camera = {image.name for image in structure.model.images}
    missing = missing_images(folder / "images", names, with_camera)
    _report_folds(structure.fold_check, structure.matching, options["matching"])
    some = images[:: max(total // 3, 1)]
    is_object = any(is_cut_out(folder / "images" / image.name) for image in some)
    write_scene(folder, structure, is_object=is_object)
    scene = load_scene(folder, split=0)
    draw_scene(folder / "cameras.png", scene)
    make_folder(folder / "sparse" / "0")
    for file in structure.folder.glob("*.bin"):
        with appearing(folder / "sparse" / "0" / file.name) as partial:
            shutil.copyfile(file, partial)
    result = {
        "given": total,
        "registered": registered,
        "without_camera": missing,
        "mean_reprojection_error": structure.error,
        "points": 0 if scene.points is None else len(scene.points),
        "fewest_points_of_a_image": min(structure.seen.values()),
        "images_of_each_model": structure.models,
        "matched": structure.matching,
        "torn": structure.fold_check.torn,
        "focal_trial": structure.trial and structure.trial._asdict(),
        "aabb_scale": scene.extent,
    }
    write_json(folder / RECORD, options | result)
    _remove_work(folder)
    log.info(
        f"{registered} of {total} images have a camera; points are off by {structure.error:.2f} "
        f"pixels in the mean; cameras.png in {folder} shows them"
    )


def _report_folds(check: FoldCheck, matching: str, asked: str) -> None:
    """Warn of torn pairs. Raise InputError for several folded ones if `asked` is auto.

    With folded pairs, part of the cameras are on the wrong side. `asked` is the user's matching,
    `matching` the one by which the cameras were found.
    """
    if not check.torn:
        return
    one, other, degrees = max(check.torn, key=lambda pair: pair[2])
    message = (
        f"{one} and {other} show the same, but their cameras look {degrees:.0f} degrees apart, and "
        f"{len(check.torn)} such pairs are torn: an object that looks the same from two sides may "
        "be folded"
    )
    again = "photo it again with more of its surroundings in each image"
    ordered = "--matching sequential may do better if the names are in the order of a walk"
    if asked == "auto" and len(check.folded) >= FOLDED:
        kept = f"--matching {matching} keeps these cameras with a warning"
        raise InputError(f"{message}; {again}, in smaller steps; {kept}")
    log.warning("%s; %s", message, again if matching == "sequential" else ordered)
