"""`capture_scene` estimates the camera poses of a video or a folder of photos, and writes a scene:
`transforms.json` and the sparse points as PLY, as instant-ngp and nerfstudio read them. z is up,
the origin is the point that the cameras look at, and their mean distance from the origin is 1.
Intrinsics include distortion as in OpenCV."""

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from nerfmac.app.capture import inputs
from nerfmac.app.capture.findings import CONTRADICTIONS, RECORD, RefusedError
from nerfmac.app.capture.source import Source, refuse_panoramas
from nerfmac.app.capture.structure import Solver, Structure, step_name
from nerfmac.app.capture.video import Video, open_video, report_conversions
from nerfmac.app.scenes import holds_scene
from nerfmac.app.scenes.assembly import assemble
from nerfmac.app.scenes.diagram import draw_scene
from nerfmac.app.scenes.images import are_cut_out
from nerfmac.app.scenes.masks import masks_of, report_masks
from nerfmac.app.scenes.placement import fit, leveling
from nerfmac.app.scenes.ply_points import write_ply_points
from nerfmac.app.scenes.readers import read_scene, refuse_run
from nerfmac.app.scenes.readers.transforms import FILE_NAME
from nerfmac.common import (
    InputError,
    appearing,
    as_json,
    check_free,
    install,
    locked,
    log,
    make_folder,
    read_fields,
    read_json,
    user_path,
    write_json,
)
from nerfmac.common.awake import awake
from nerfmac.config.scenes import MIN_IMAGES, CaptureOptions, SceneOptions
from nerfmac.geometry import Lens

HOME = Path("captures")  # Default parent folder of captured scenes, in the working folder.
WORK, IMAGES = "capture", "images.json"
CHANGEABLE = {"matching", "focal_35mm"}
"""Options that may change when a capture is resumed, because they do not affect the images."""
MIN_REGISTERED = 1 / 3
"""A capture fails if cameras are estimated for less than this fraction of the images."""
POINTS = "points.ply"
SEEN_BY = 3  # Minimum number of images of a point in `points.ply`. Other points are often wrong.
LENS_KEYS = ("fl_x", "fl_y", "cx", "cy", "k1", "k2", "p1", "p2")


def captured(path: Path) -> Path:
    """Return the scene folder for `path`. For a video or photos, run `capture_scene` first."""
    path = path.expanduser()
    refuse_run(path)
    if holds_scene(path):
        return path
    source = Source(path)
    source.refuse_unsupported()
    if (path / RECORD).is_file() and (path / WORK).is_dir():
        values = read_fields(path / RECORD).values
        given = values.get("source")
        if reason := values.get("refused"):
            raise InputError(f"no cameras could be estimated for {given}: {reason}")
        raise InputError(
            f"{path} is an unfinished capture of {given}; run `nerfmac capture {given} --out "
            f"{path}` to continue it"
        )
    if not source.is_video and not source.photos:
        return path
    out = HOME / path.resolve().stem
    kind = "a video" if source.is_video else "a folder of photos"
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
    given, options = Source(user_path(source)), options or CaptureOptions()
    _check(given, estimate=options.estimate)
    need_pycolmap()
    folder = user_path(out) if out is not None else HOME / given.path.resolve().stem
    request: dict[str, Any] = {"source": str(given.path.resolve()), **asdict(options)}
    del request["accept_poses"], request["estimate"]  # They do not change images and cameras.

    is_video = given.is_video

    def bar(name: str, total: int | None) -> Any:
        return tqdm(total=total, desc=step_name(name, of_video=is_video), disable=not progress)

    capture = _Capture(given, folder, request, bar)
    try:
        request["files"] = given.digests
        if capture.is_done():
            # A process that was killed while removing may have left files.
            shutil.rmtree(folder / WORK, ignore_errors=True)
            log.info("%s already contains this capture", folder)
            return folder
        if "refused" in capture.known and not capture.changed and not options.accept_poses:
            raise RefusedError(str(capture.known["refused"]))
        chosen = capture.choose()
        with _removed_if_useless(folder), locked(folder):
            capture.begin()
            try:
                images = capture.images(chosen)
                is_sequential = is_video and options.matching == "auto"
                solver = Solver(folder / WORK, folder / "images", images, bar, is_video=is_video)
                structure = solver.solve("sequential" if is_sequential else options.matching)
                _check_structure(structure, len(images), is_video, options.accept_poses)
            except RefusedError as error:
                write_json(folder / RECORD, request | {"refused": str(error)})
                raise
            capture.finish(images, structure)
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


def _check(source: Source, *, estimate: bool) -> None:
    path = source.path
    refuse_run(path)
    if not estimate and path.is_dir() and holds_scene(path):
        raise InputError(
            f"{path} is a scene with known cameras; train on it with `nerfmac train {path}`, "
            "or estimate the cameras again with --estimate"
        )
    source.refuse_unsupported(estimate=estimate)
    if not source.is_video and not source.photos:
        state = f"does not exist in {Path.cwd()}"
        if path.exists():
            state = "contains no photos" if path.is_dir() else "is neither a video nor a folder"
        raise InputError(f"{path} {state}; pass a video, or a folder that contains photos")


@dataclass(frozen=True)
class _Capture:
    """Capture of a source in a folder, with its options and content hashes as JSON values
    (`request`). `bar(name, total)` creates a progress bar."""

    source: Source
    folder: Path
    request: dict[str, Any]
    bar: Callable[[str, int | None], Any]

    @cached_property
    def known(self) -> Mapping[str, Any]:
        """Record of an earlier attempt, or an empty mapping."""
        record = self.folder / RECORD
        return read_fields(record).values if record.is_file() else {}

    @cached_property
    def video(self) -> Video | None:
        """Opened video, or `None` if the source is a folder of photos."""
        return open_video(self.source.path) if self.source.is_video else None

    @property
    def changed(self) -> set[str]:
        """Options that differ from those of the earlier attempt, whose record may contain others.
        The source files are the option `files`."""
        return {key for key, value in self.request.items() if self.known.get(key) != value}

    @property
    def changed_files(self) -> str:
        """Description of the changes of the source files since the earlier attempt, if any."""
        return self.source.changes(self.known.get("files")) if self.known else ""

    def is_done(self) -> bool:
        """Return whether the folder contains this capture and the capture is complete."""
        if not self.known:
            check_free(self.folder)
            return False
        options = self.changed - {"files"}
        is_done = (self.folder / FILE_NAME).is_file() and "registered" in self.known
        if options - CHANGEABLE or (options and is_done):
            raise InputError(
                f"{self.folder} contains a capture of {self.known.get('source')} with other "
                "options; choose another folder with --out, or remove this one"
            )
        if is_done and self.changed:
            raise InputError(
                f"{self.folder} contains a capture of {self.source.path.resolve()}, which has "
                f"changed since: {self.changed_files}; to capture it again, remove {self.folder} "
                "or choose another folder with --out; to train on the existing capture, run "
                f"`nerfmac train {self.folder}`"
            )
        return is_done

    def begin(self) -> None:
        """Write the record of the capture. The record is written before all other files, so that a
        capture that was killed can be resumed.

        If the folder contains an unfinished capture with other values of the options in
        `CHANGEABLE`, its results are removed, but its images remain. If the source files have
        changed since the unfinished capture began, all of its results are removed.
        """
        work = self.folder / WORK
        if what := self.changed_files:
            log.warning("%s has changed: %s; restarting its capture", self.request["source"], what)
            for path in (work, self.folder / "images", self.folder / "masks"):
                shutil.rmtree(path, ignore_errors=True)
        if self.known and self.changed and work.is_dir():
            for path in work.iterdir():
                if path.is_dir():
                    shutil.rmtree(path)
                elif path.name != IMAGES:
                    path.unlink()
        write_json(self.folder / RECORD, self.request)

    def choose(self) -> list[Path] | list[int]:
        """Choose the photos or frame numbers to use, or none if the capture already has images."""
        if (self.folder / WORK / IMAGES).is_file() and not self.changed_files:
            return []
        if self.video:
            with self.bar("frames", None) as counting:
                return inputs.choose_frames(self.video, self.request["frames"], counting)
        paths = self.source.without_copies()
        _check_count(self.source.path, len(paths))
        return paths

    def images(self, chosen: Sequence[Any]) -> list[inputs.CapturedImage]:
        """Return the images of the capture, created from `chosen` if they do not exist. The option
        `focal_35mm` replaces the focal lengths from EXIF."""
        list_file = self.folder / WORK / IMAGES
        if not list_file.is_file():
            write_json(list_file, [image._asdict() for image in self._new_images(chosen)])
        images = [inputs.CapturedImage(**values) for values in read_json(list_file)]
        if focal := self.request["focal_35mm"]:
            images = [
                image._replace(focal=inputs.focal_in_pixels(focal, image.width, image.height))
                for image in images
            ]
        return images

    def _new_images(self, chosen: Sequence[Any]) -> list[inputs.CapturedImage]:
        path, to, longest = self.source.path, self.folder / "images", self.request["longest_side"]
        make_folder(self.folder / WORK)
        make_folder(to)
        if self.video:
            report_conversions(self.video)
        with self.bar("images", None) as counting:
            if self.video:
                images = inputs.take_frames(self.video, chosen, to, longest, counting)
            else:
                self.source.report_unused(chosen)
                masks = masks_of(chosen, path)
                report_masks(masks, chosen, path)
                images = inputs.take_images(list(chosen), to, longest, counting, masks)
        _check_count(path, len(images))
        refuse_panoramas(path, [to / image.name for image in images])
        return images

    def finish(self, images: Sequence[inputs.CapturedImage], structure: Structure) -> None:
        """Write the scene and the report, and remove the intermediate results."""
        total, registered = len(images), len(structure.model.images)
        found = {image.name for image in structure.model.images}
        missing = inputs.missing_images(self.folder / "images", [i.name for i in images], found)
        for finding in structure.verdict.findings:
            log.warning("%s", finding.line)
        is_object = are_cut_out([self.folder / "images" / image.name for image in images])
        write_scene(self.folder, structure, is_object=is_object)
        # `missing_images` has reported the images without a camera.
        parsed = read_scene(self.folder)._replace(is_reported=True)
        scene = assemble(parsed, self.folder, SceneOptions.of("none"))
        draw_scene(self.folder / "cameras.png", scene)
        copy_model(structure.folder, self.folder / "sparse" / "0")
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
        write_json(self.folder / RECORD, self.request | result)
        shutil.rmtree(self.folder / WORK, ignore_errors=True)
        repaired = f", estimated again with {structure.tried[-1]}" if structure.tried else ""
        log.info(
            f"{registered} of {total} images have a camera{repaired}; the mean reprojection error "
            f"is {structure.error:.2f} pixels; see cameras.png in {self.folder}"
        )


def write_scene(folder: Path, structure: Structure, *, is_object: bool) -> None:
    """Write `transforms.json` and `points.ply`. `is_object` specifies whether the
    images show a cut-out object."""
    images = sorted(structure.model.images, key=lambda image: image.name)
    poses = [image.camera_to_file for image in images]
    rows = structure.points[structure.points[:, 7] >= SEEN_BY]
    lenses = {
        number: structure.model.cameras[number].lens(f"{folder}: camera {number}")
        for number in {image.camera for image in images}
    }
    placement = fit(
        poses,
        is_object,
        str(folder),
        points=rows[:, :3],
        tangents=[lenses[image.camera].tangents for image in images],
        rotation=leveling(poses),
    )
    points = placement.to_scene(rows[:, :3]) - 0.5
    write_ply_points(folder / POINTS, points, rows[:, 3:6].astype(np.uint8))
    intrinsics = {number: _lens_values(lens) for number, lens in lenses.items()}
    shared = intrinsics.pop(images[0].camera) if len(lenses) == 1 else {}
    frames = []
    for image, pose in zip(images, poses, strict=True):
        position = placement.to_scene(pose[:, 3]) - 0.5
        matrix = np.eye(4)
        matrix[:3] = np.column_stack([placement.rotation @ pose[:, :3], position])
        frame = {"file_path": f"images/{image.name}", **intrinsics.get(image.camera, {})}
        frames.append({**frame, "transform_matrix": matrix.tolist()})
    values = {
        "camera_model": "OPENCV",
        **shared,
        "aabb_scale": int(placement.extent),
        "scale": 1.0,
        "offset": [0.5, 0.5, 0.5],
        "up": [0.0, 0.0, 1.0],
        "ply_file_path": POINTS,
        "frames": frames,
    }
    write_json(folder / FILE_NAME, values)


def copy_model(source: Path, target: Path) -> None:
    """Copy the binary files of a COLMAP model to the folder `target`."""
    make_folder(target)
    for file in source.glob("*.bin"):
        with appearing(target / file.name) as partial:
            shutil.copyfile(file, partial)


def _lens_values(lens: Lens) -> dict[str, Any]:
    return {"w": lens.width, "h": lens.height, **{key: getattr(lens, key) for key in LENS_KEYS}}


def _check_count(source: Path, count: int) -> None:
    if count < MIN_IMAGES:
        raise InputError(
            f"{source} contains {count} usable image{'s' if count != 1 else ''}; at least "
            f"{MIN_IMAGES} overlapping images are required, preferably 30 or more from all sides"
        )


def _check_structure(structure: Structure, total: int, is_video: bool, accept_poses: bool) -> None:
    """Raise `RefusedError` if the cameras of too few images were found, or if the verdict refuses
    the cameras and `accept_poses` is false."""
    registered = len(structure.model.images)
    if registered < max(MIN_IMAGES, MIN_REGISTERED * total):
        what_to_do = inputs.advice(total, is_video=is_video)
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
