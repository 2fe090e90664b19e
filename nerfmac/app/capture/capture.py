"""`capture_scene` estimates the camera poses of a video or a folder of photos."""

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from nerfmac.app.capture import inputs
from nerfmac.app.capture.findings import CONTRADICTIONS, RefusedError, Verdict
from nerfmac.app.capture.panorama import refuse_panoramas
from nerfmac.app.capture.scene_files import copy_model, write_scene
from nerfmac.app.capture.stages import step_name
from nerfmac.app.capture.structure import Solver, Structure
from nerfmac.app.capture.unregistered import missing_images
from nerfmac.app.capture.video import report_conversions
from nerfmac.app.scenes import holds_scene
from nerfmac.app.scenes.assembly import assemble
from nerfmac.app.scenes.diagram import draw_scene
from nerfmac.app.scenes.images import is_cut_out, unsupported
from nerfmac.app.scenes.masks import masks_of, report_masks
from nerfmac.app.scenes.readers import read_scene, refuse_run
from nerfmac.app.scenes.readers.transforms import FILE_NAME
from nerfmac.common import (
    Fields,
    InputError,
    as_json,
    check_free,
    install,
    locked,
    log,
    make_folder,
    name_key,
    read_as,
    read_fields,
    read_json,
    user_path,
    write_json,
)
from nerfmac.common.awake import awake
from nerfmac.config.scenes import MIN_IMAGES, CaptureOptions, SceneOptions

HOME = Path("captures")  # Default parent folder of captured scenes, in the working folder.
RECORD, WORK, IMAGES = "capture.json", "capture", "images.json"
CHANGEABLE = {"matching", "focal_35mm"}
"""Options that may change when a capture is resumed, because they do not affect the images."""
MIN_REGISTERED = 1 / 3
"""A capture fails if cameras are estimated for less than this fraction of the images."""
SLOWLY = (
    "move the camera more slowly or take more images, let each image overlap the next one, walk "
    "around instead of turning in place, and avoid bare walls, glass, and motion blur"
)


def captured(path: Path) -> Path:
    """Return the scene folder for `path`. For a video or photos, run `capture_scene` first."""
    path = path.expanduser()
    refuse_run(path)
    if holds_scene(path):
        return path
    inputs.refuse_unsupported(path)
    if (path / RECORD).is_file() and (path / WORK).is_dir():
        values = read_fields(path / RECORD).values
        source = values.get("source")
        if reason := values.get("refused"):
            raise InputError(f"no cameras could be estimated for {source}: {reason}")
        raise InputError(
            f"{path} is an unfinished capture of {source}; run `nerfmac capture {source} --out "
            f"{path}` to continue it"
        )
    if not inputs.is_input(path):
        return path
    out = HOME / path.resolve().stem
    kind = "a video" if inputs.is_video(path) else "a folder of photos"
    log.warning("%s is %s; estimating its cameras and writing the scene to %s", path, kind, out)
    return capture_scene(path, out)


@awake()
def capture_scene(
    source: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    options: CaptureOptions | None = None,
    *,
    progress: bool = True,
) -> Path:
    """Estimate the camera poses of a video or of photos and write a scene.

    The same call resumes an interrupted capture, and returns immediately if the capture is
    complete. An interrupted or refused capture can also be resumed with another value of
    `options.matching` or `options.focal_35mm`. The camera poses are compared with the matches of
    the images. If the poses contradict the matches, they are estimated again in other ways, and
    refused if none helps.

    Args:
        source: Video file, or folder of photos.
        out: Scene folder, by default `captures/NAME` in the working folder. After the capture, the
            scene folder contains `images`, `transforms.json`, `points.ply`, `cameras.png`, the
            report `capture.json`, and the COLMAP model in `sparse/0`.
        options: Size and number of the images, the pairs of images to match, their focal length,
            and whether to accept camera poses that are probably wrong.
        progress: Whether to show a progress bar for each stage.

    Returns:
        The scene folder.

    Raises:
        InputError: If pycolmap is not installed, `source` or `out` is unsuitable, or the cameras of
            too few images can be estimated. Also if the cameras are probably wrong: the focal
            length is unknown, the camera turned in place, or the cameras contradict the matches.
    """
    source, options = user_path(source), options or CaptureOptions()
    _check(source, estimate=options.estimate)
    need_pycolmap()
    folder = user_path(out) if out is not None else HOME / source.resolve().stem
    request: dict[str, Any] = {"source": str(source.resolve()), **asdict(options)}
    del request["accept_poses"], request["estimate"]  # They do not change images and cameras.

    def bar(name: str, total: int | None) -> Any:
        step = step_name(name, of_video=inputs.is_video(source))
        return tqdm(total=total, desc=step, disable=not progress)

    try:
        request["files"] = _digests(source)
        if _is_done(folder, request):
            # A process that was killed while removing may have left files.
            shutil.rmtree(folder / WORK, ignore_errors=True)
            log.info("%s already contains this capture", folder)
            return folder
        refused = _refusal(folder, request)
        if refused and not options.accept_poses:
            raise RefusedError(refused)
        chosen = _choose(source, folder, request, bar)
        with _removed_if_useless(folder), locked(folder):
            _begin(folder, request)
            is_video = inputs.is_video(source)
            is_sequential = is_video and options.matching == "auto"
            matching = "sequential" if is_sequential else options.matching
            try:
                images = _images(source, chosen, folder, request, bar)
                solver = Solver(folder / WORK, folder / "images", images, bar, is_video=is_video)
                structure = solver.solve(matching)
                _check_structure(structure, len(images), is_video, options.accept_poses)
            except RefusedError as error:
                write_json(folder / RECORD, request | {"refused": str(error)})
                raise
            _finish(folder, request, images, structure)
    except KeyboardInterrupt as interruption:
        kept = f"completed work is in {folder}; run the same command again to continue"
        raise KeyboardInterrupt(kept if folder.exists() else "nothing was saved") from interruption
    return folder


@contextmanager
def _removed_if_useless(folder: Path) -> Iterator[None]:
    """Context manager that creates the folder of a capture. After an error, a new folder is removed
    if it contains too few images, because then no other option would help. Otherwise, a note in a
    refusal describes what the folder contains."""
    is_new, images = not folder.exists(), folder / WORK / IMAGES
    make_folder(folder)
    try:
        yield
    except InputError as error:
        count = len(read_json(images)) if images.is_file() else 0
        if is_new and count < inputs.FEW_IMAGES:
            shutil.rmtree(folder)
            with suppress(OSError):
                folder.parent.rmdir()  # Only succeeds if it contains no other files.
        elif isinstance(error, RefusedError):
            error.add_note(
                f"the images and their matches are in {folder}; another attempt with other "
                "options continues from there, and otherwise you can remove this folder"
            )
        raise


def need_pycolmap() -> None:
    """Raise `InputError` if pycolmap is not installed. The package is not imported."""
    if find_spec("pycolmap") is None:
        raise InputError(
            "pycolmap is not installed; camera pose estimation requires the extra capture: "
            f"{install('capture')}"
        )


def _check(source: Path, *, estimate: bool) -> None:
    refuse_run(source)
    if not estimate and source.is_dir() and holds_scene(source):
        raise InputError(
            f"{source} is a scene with known cameras; train on it with `nerfmac train {source}`, "
            "or estimate the cameras again with --estimate"
        )
    inputs.refuse_unsupported(source, estimate=estimate)
    if not inputs.is_input(source):
        state = f"does not exist in {Path.cwd()}"
        if source.exists():
            is_folder = source.is_dir()
            state = "contains no photos" if is_folder else "is neither a video nor a folder"
        raise InputError(f"{source} {state}; pass a video, or a folder that contains photos")


def _is_done(folder: Path, options: dict[str, Any]) -> bool:
    """Return whether `folder` contains this capture and the capture is complete."""
    record = folder / RECORD
    if not record.is_file():
        check_free(folder)
        return False
    known = read_fields(record).values
    changed = _changed_options(known, options)
    is_done = (folder / FILE_NAME).is_file() and "registered" in known
    if changed - CHANGEABLE - {"files"} or (changed - {"files"} and is_done):
        raise InputError(
            f"{folder} contains a capture of {known.get('source')} with other options; choose "
            "another folder with --out, or remove this one"
        )
    if "files" in changed and is_done:
        raise InputError(
            f"{folder} contains a capture of {options['source']}, which has changed since: "
            f"{_changed_files(record, options)}; to capture it again, remove {folder} or choose "
            "another folder with --out; to train on the existing capture, run "
            f"`nerfmac train {folder}`"
        )
    return is_done


def _refusal(folder: Path, options: dict[str, Any]) -> str:
    """Return why the same capture failed before, or an empty text."""
    record = folder / RECORD
    known = read_fields(record).values if record.is_file() else {}
    return str(known.get("refused", "")) if not _changed_options(known, options) else ""


def _changed_options(known: Mapping[str, Any], options: Mapping[str, Any]) -> set[str]:
    """Return the options that differ from a record. The record may contain other keys."""
    return {key for key, value in options.items() if known.get(key) != value}


def _changed_files(record: Path, options: dict[str, Any]) -> str:
    """Describe the source files that have changed since `record` was written, if it exists."""
    if not record.is_file():
        return ""
    known = read_fields(record).values.get("files")
    return inputs.changes(known if isinstance(known, dict) else {}, options["files"])


def _begin(folder: Path, options: dict[str, Any]) -> None:
    """Write the record of a capture. The record is written before all other files, so that a
    capture that was killed can be resumed.

    If the folder contains an unfinished capture with other values of the options in `CHANGEABLE`,
    its results are removed, but its images remain. If the source files have changed since the
    unfinished capture began, all of its results are removed.
    """
    record, work = folder / RECORD, folder / WORK
    if what := _changed_files(record, options):
        log.warning("%s has changed: %s; restarting its capture", options["source"], what)
        for path in (work, folder / "images", folder / "masks"):
            shutil.rmtree(path, ignore_errors=True)
    known = read_json(record) if record.is_file() else options
    if _changed_options(known, options) and work.is_dir():
        for path in work.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name != IMAGES:
                path.unlink()
    write_json(record, options)


def _digests(source: Path) -> dict[str, str]:
    """Return the content hashes of a video, or of photos and their masks, by file path."""
    if inputs.is_video(source):
        return inputs.digests_of([source], source.parent)
    photos = inputs.images_in(source)
    return inputs.digests_of([*photos, *masks_of(photos, source).values()], source)


def _choose(
    source: Path, folder: Path, options: dict[str, Any], bar: Any
) -> list[Path] | list[int]:
    """Choose the photos or frame numbers to use, or none if the capture already has images."""
    record = folder / RECORD
    if (folder / WORK / IMAGES).is_file() and not _changed_files(record, options):
        return []
    if inputs.is_video(source):
        with bar("frames", None) as counting:
            return inputs.choose_frames(source, options["frames"], counting)
    paths = inputs.without_copies(inputs.images_in(source), source, options["files"])
    if len(paths) < MIN_IMAGES:
        raise InputError(
            f"{source} contains {len(paths)} image{'s'[: len(paths) > 1]}; at least three "
            "overlapping images are required, preferably 30 or more from all sides"
        )
    return paths


def _images(
    source: Path, chosen: Sequence[Any], folder: Path, options: dict[str, Any], bar: Any
) -> list[inputs.CapturedImage]:
    """Return the images of the capture, created from `chosen` if they do not exist. The option
    `focal_35mm` replaces the focal lengths from EXIF."""
    list_file = folder / WORK / IMAGES
    if list_file.is_file():
        images = [inputs.CapturedImage(**values) for values in read_json(list_file)]
    else:
        images = _make_images(source, chosen, folder, options["longest_side"], bar)
        write_json(list_file, [image._asdict() for image in images])
    if millimeters := options["focal_35mm"]:
        images = [
            image._replace(focal=inputs.focal_in_pixels(millimeters, image.width, image.height))
            for image in images
        ]
    return images


def _make_images(
    source: Path, chosen: Sequence[Any], folder: Path, longest: int, bar: Any
) -> list[inputs.CapturedImage]:
    image_folder = folder / "images"
    make_folder(folder / WORK)
    make_folder(image_folder)
    if inputs.is_video(source):
        report_conversions(source)
    with bar("images", None) as counting:
        if inputs.is_video(source):
            images = inputs.take_frames(source, chosen, image_folder, longest, counting)
        else:
            stems = {name_key(path.stem) for path in chosen}
            unread = inputs.unsupported_in(source)
            skipped = [path for path in unread if name_key(path.stem) not in stems]
            if skipped:
                log.warning("%s; skipping them", unsupported(skipped[0], len(skipped)))
            inputs.report_unused(source)
            masks = masks_of(chosen, source)
            report_masks(masks, chosen, source)
            images = inputs.take_images(list(chosen), image_folder, longest, counting, masks)
    if len(images) < MIN_IMAGES:
        raise InputError(
            f"{source} contains {len(images)} usable images; at least {MIN_IMAGES} are required"
        )
    refuse_panoramas(source, [image_folder / image.name for image in images])
    return images


def _check_structure(structure: Structure, total: int, is_video: bool, accept_poses: bool) -> None:
    """Raise `RefusedError` if the cameras of too few images were found, or if the verdict refuses
    the cameras and `accept_poses` is false."""
    registered = len(structure.model.images)
    if registered < max(MIN_IMAGES, MIN_REGISTERED * total):
        what_to_do = inputs.advice(total, SLOWLY, is_video=is_video)
        raise RefusedError(f"only {registered} of {total} images could be registered: {what_to_do}")
    verdict = structure.verdict
    if verdict.is_refused and not accept_poses:
        worst = next(finding for finding in verdict.findings if finding.is_refused)
        reason = worst.line
        if structure.tried:
            reason += f"; estimating the cameras with {', '.join(structure.tried)} did not help"
        if is_video and worst.kind in CONTRADICTIONS:
            reason += f"; or extract more frames, for example with --frames {2 * total}"
        raise RefusedError(
            f"the camera poses are probably wrong: {reason}; to keep them anyway, run `nerfmac "
            "capture` with the same options and --accept-poses"
        )


def _finish(
    folder: Path,
    options: dict[str, Any],
    images: Sequence[inputs.CapturedImage],
    structure: Structure,
) -> None:
    total, registered = len(images), len(structure.model.images)
    names = [image.name for image in images]
    with_camera = {image.name for image in structure.model.images}
    missing = missing_images(folder / "images", names, with_camera)
    for finding in structure.verdict.findings:
        log.warning("%s", finding.line)
    some = images[:: max(total // 3, 1)]
    is_object = any(is_cut_out(folder / "images" / image.name) for image in some)
    write_scene(folder, structure, is_object=is_object)
    # `missing_images` has reported the images without a camera.
    parsed = read_scene(folder)._replace(is_reported=True)
    scene = assemble(parsed, folder, SceneOptions.of("none"))
    draw_scene(folder / "cameras.png", scene)
    copy_model(structure.folder, folder / "sparse" / "0")
    result = {
        "given": total,
        "registered": registered,
        "without_camera": missing,
        "mean_reprojection_error": structure.error,
        "points": 0 if scene.points is None else len(scene.points),
        "images_of_each_model": structure.models,
        "matched": structure.matching,
        "tried": structure.tried,
        "verdict": as_json(structure.verdict),
        "focal_trial": as_json(structure.trial),
        "aabb_scale": scene.extent,
    }
    write_json(folder / RECORD, options | result)
    shutil.rmtree(folder / WORK, ignore_errors=True)
    repaired = f", estimated again with {structure.tried[-1]}" if structure.tried else ""
    log.info(
        f"{registered} of {total} images have a camera{repaired}; the mean reprojection error is "
        f"{structure.error:.2f} pixels; see cameras.png in {folder}"
    )


def stored_verdict(path: Path | None) -> Verdict:
    """Return the verdict on the camera poses that `capture_scene` stored in the folder of a scene.
    The verdict has no findings if the folder contains no capture of this version. `path` is the
    path of the scene, or None for a scene in memory."""
    record = path and (path if path.is_dir() else path.parent) / RECORD
    stored = read_fields(record) if record and record.is_file() else Fields({}, RECORD)
    with suppress(InputError):
        return read_as(Verdict, stored.object("verdict"))
    return Verdict()
