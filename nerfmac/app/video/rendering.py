"""`render_video` renders a run to a video or to numbered files in a folder. `video_seconds`
estimates the rendering time, and `video_size` returns the default frame size.

    frame_00000.png    uint8 sRGB, with straight alpha if the background is transparent
    frame_00000.exr    float32: depth and opacity as Y; normals or linear colors as R, G, and B;
                       alpha as A, by which the colors are multiplied
    series.json        everything that the frames depend on; the same in a resumed video

A file is created only when it is complete, so an interrupted series contains only complete frames.
"""

import json
import math
import os
import shutil
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from nerfmac.app.run import Run
from nerfmac.app.video import encoding
from nerfmac.app.video.frames import CameraSamples, SideBySide
from nerfmac.backend import current_device
from nerfmac.common import (
    InputError,
    check_replaceable,
    duration,
    locked,
    log,
    make_folder,
    read_json,
    user_path,
    write_json,
)
from nerfmac.common.awake import awake
from nerfmac.config.rendering import DEFAULT_FPS, RenderOptions, VideoOptions
from nerfmac.geometry import Camera, Lens

RECORD = "series.json"
CPU_SIDE = 720
"""Longer side of the frames of a video on a CPU in pixels, unless the photos are smaller."""
LONG = 300.0  # Rendering time in seconds above which a smaller size is offered.
OFFERED = 180.0  # Approximate rendering time in seconds with the offered size.
MIN_SIDE = 64  # Minimum of the longer side in pixels that is offered.


@awake()
def render_video(
    run: Run | Sequence[Run],
    cameras: Sequence[Camera | CameraSamples],
    out: Path | str,
    options: RenderOptions | None = None,
    video: VideoOptions | None = None,
    *,
    progress: bool = True,
) -> None:
    """Render one frame per camera to a video or a folder.

    Args:
        run: Run to render in its current state, or several runs of the same scene to render side by
            side.
        cameras: A camera for each frame, in scene coordinates. For motion blur, several cameras for
            each frame. All cameras have the same image size.
        out: Video file with the extension .mp4, .webm, or .gif, or a folder for numbered files.
        options: Content and appearance of the images. By default, colors over the `backdrop` of the
            scene.
        video: Frame rate of a video, format of the files in a folder, and whether to resume an
            interrupted rendering or to replace an existing `out`. If `video.resume` is True, the
            frames of a video are stored in the folder OUT.frames until the video is complete.
        progress: Whether to log the estimated time and to show a progress bar.

    Raises:
        InputError: If existing files would be replaced without `overwrite`, a video would need a
            transparent background, `cameras` is empty, or the format, the frame rate, or the
            options are unsupported. These conditions are checked before rendering.

    Examples:
        >>> from nerfmac.app.video import render_video
        >>> from nerfmac.config.rendering import RenderOptions, VideoOptions
        >>> cameras = run.orbit(frames=4, size=(64, 48))
        >>> slow = VideoOptions(fps=2.0)
        >>> render_video(run, cameras, "orbit.mp4", video=slow, progress=False)
        >>> options = RenderOptions(output="depth")
        >>> render_video(run, cameras, "depths", options, progress=False)
    """
    out, runs = user_path(out), [run] if isinstance(run, Run) else run
    options, video = options or RenderOptions(), video or VideoOptions()
    if video.format == "exr":
        encoding.encoder("exr")  # Raises if ffmpeg cannot encode EXR files.
    frames = [[camera] if isinstance(camera, Camera) else camera for camera in cameras]
    if not frames:
        raise InputError(f"there are no frames to render to {out}; pass at least one camera")
    is_video, fps = out.suffix.lower() in encoding.VIDEOS, video.fps or DEFAULT_FPS
    options = options.over(runs[0].scene.backdrop)
    if is_video:
        encoding.check_video(out, fps)
        if options.background_color is None:
            raise InputError(
                f"{out} is a video, which cannot be transparent; pass a folder for PNG or EXR "
                "files, or choose a background color such as white"
            )
        if options.projection == "equirectangular" and out.suffix.lower() != ".mp4":
            log.warning("%s has no metadata for 360 degree players; use an .mp4 file for it", out)
    check_output(out, video)
    joined = SideBySide(runs, options)
    if video.format != "png" and len(joined.renderers) > 1:
        raise InputError(
            f"{video.format} files support only one run and one eye; use PNG files or a video "
            "instead"
        )
    made_by = _made_by(runs, frames, options, video.format)
    if not is_video:
        if video.overwrite and not video.resume:
            _remove_series(out)
        begin_series(out, made_by, resume=video.resume)
        _write_files(out, joined, frames, video.format, progress)
        return

    def write() -> None:
        with _images(out, joined, frames, record, video.overwrite, progress) as images:
            encoding.write_video(out, images, fps, options.projection, options.stereo)

    # Before a frame is rendered, a Mac's encoder is tried. It may still fail later, so the frames
    # are stored for the CPU's encoder.
    uses_hardware = encoding.uses_hardware(out, joined.size(frames[0][0].lens), fps)
    record = made_by if video.resume or uses_hardware else None
    if record and not video.resume:
        _remove_series(out.with_name(f"{out.name}.frames"))
    try:
        write()
    except encoding.HardwareError as error:
        log.warning("%s; encoding the frames with libx264", error)
        write()


@contextmanager
def _images(
    out: Path,
    joined: SideBySide,
    frames: Sequence[CameraSamples],
    made_by: dict[str, Any] | None,
    overwrite: bool,
    progress: bool,
) -> Iterator[Iterator[np.ndarray]]:
    """Context manager that yields an iterator over video frames. With the record `made_by`, the
    frames are stored in the folder OUT.frames, which is removed when the video is complete."""
    if made_by is None:
        with closing(_rendered(out, joined, frames, range(len(frames)), progress)) as rendered:
            yield rendered
        return
    folder = out.with_name(f"{out.name}.frames")
    if overwrite and changed_key(folder, made_by):
        _remove_series(folder)
    begin_series(folder, made_by, resume=True)
    with locked(folder):
        missing = missing_frames(folder, len(frames), "png")
        with closing(_rendered(out, joined, frames, missing, progress)) as rendered:
            yield resumed_series(folder, len(frames), missing, rendered)
        _remove_series(folder)  # This function removes the record last, so that resuming works.
        shutil.rmtree(folder)


def check_output(out: Path, video: VideoOptions) -> None:
    """Raise `InputError` if the parent folder of `out` does not exist, or if existing files would
    be replaced without `video.overwrite`. With `video.resume`, a folder may contain frames."""
    if not out.absolute().parent.is_dir():
        raise InputError(
            f"cannot write {out}: the folder {out.parent} does not exist; create it, or choose "
            "another name"
        )
    if not os.access(out.absolute().parent, os.W_OK | os.X_OK):
        raise InputError(
            f"cannot write {out}: there is no permission to write in {out.absolute().parent}; "
            "choose another place with --out"
        )
    if out.suffix.lower() in encoding.VIDEOS:
        check_replaceable(out, overwrite=video.overwrite)
    elif out.is_file():
        raise InputError(f"{out} is a file; expected a video file or a folder")
    elif any(out.glob("frame_*.*")) and not (video.resume or video.overwrite):
        raise InputError(
            f"{out} already contains frames; choose another name, replace them with --overwrite, "
            "or continue with --resume"
        )


def _remove_series(folder: Path) -> None:
    if folder.is_dir():
        for path in [*folder.glob("frame_*.*"), *folder.glob(RECORD)]:
            path.unlink()


def _made_by(
    runs: Sequence[Run], frames: Sequence[CameraSamples], options: RenderOptions, form: str
) -> dict[str, Any]:
    """Return everything that determines the frames, as JSON values. The values are the format, the
    options, a hash of the cameras, and the step and training time of each run. A rendering can be
    resumed only if its values are the same."""
    digest = sha256()
    for frame in frames:
        for camera in frame:
            digest.update(camera.pose.tobytes())
            digest.update(repr(camera.lens).encode())
    states = [{"step": run.state.step, "seconds": run.state.train_seconds} for run in runs]
    values = json.loads(json.dumps(asdict(options)))  # Converts tuples to lists.
    lens, count = frames[0][0].lens, len(frames)
    size = {"size": [lens.width, lens.height], "number of frames": count}
    return {"format": form, **size, **values, "path": digest.hexdigest(), "run": states}


def _write_files(
    folder: Path, joined: SideBySide, frames: Sequence[CameraSamples], form: str, progress: bool
) -> None:
    """Render the frames that are missing in `folder` and write their files."""
    numbers = missing_frames(folder, len(frames), form)

    def save(item: tuple[int, Any]) -> None:
        number, frame = item
        path = frame_path(folder, number, form)
        if form == "png":
            encoding.save_png(path, frame)
        else:
            encoding.save_exr(path, joined.renderers[0].options, frame)

    rendering = _rendered(folder, joined, frames, numbers, progress, form)
    with closing(rendering) as rendered, encoding.in_background(save) as submit:
        for item in zip(numbers, rendered, strict=True):
            submit(item)


def _rendered(
    out: Path,
    joined: SideBySide,
    frames: Sequence[CameraSamples],
    numbers: Sequence[int],
    progress: bool,
    form: str = "png",
) -> Generator[Any]:
    """Yield the images of the frames with the given numbers, or their values for EXR files. The
    progress bar counts only these frames as rendered, because stored frames are read much faster.
    Closing the generator ends the line of the bar, so that an error is printed on a new line."""
    chosen = [frames[number] for number in numbers]
    if progress:
        announce(out, joined, chosen)
    rendered: Iterator[Any] = joined.images(frames, numbers)
    if form != "png":
        rendered = joined.renderers[0].values(chosen)
    total, done = len(frames), len(frames) - len(numbers)
    about: dict[str, Any] = {"initial": done, "unit": "frame", "smoothing": 0.0}
    yield from tqdm(rendered, "frames", total, disable=not progress, **about)


def frame_path(folder: Path, index: int, extension: str) -> Path:
    """Return the file path of the frame with an `index`, starting at 0."""
    return folder / f"frame_{index:05}.{extension}"


def begin_series(folder: Path, made_by: dict[str, Any], *, resume: bool) -> None:
    """Create a folder for a series with the record `made_by`, or resume the series in a folder."""
    record = folder / RECORD
    if not (resume and record.is_file()):
        make_folder(folder)
        if any(folder.glob("frame_*.*")):
            raise InputError(
                f"the folder {folder} already contains frames; choose another folder or remove them"
            )
        try:
            write_json(record, made_by)
        except BaseException:
            with suppress(OSError):
                folder.rmdir()  # Only succeeds if it contains no other files.
            raise
        return
    if name := changed_key(folder, made_by):
        raise InputError(
            f"{folder} contains frames that were rendered with another {name}; use the same "
            "arguments, choose another output, or start again with --overwrite"
        )


def changed_key(folder: Path, made_by: dict[str, Any]) -> str:
    """Return the first key with different values in `made_by` and in the record in `folder`. If
    there is none or the folder has no record, the string is empty."""
    record = folder / RECORD
    old = read_json(record) if record.is_file() else made_by
    known = old if isinstance(old, dict) else {}
    return next((name for name in made_by if known.get(name) != made_by[name]), "")


def missing_frames(folder: Path, count: int, extension: str) -> list[int]:
    """Return the indices, from 0 to `count` - 1, of the frames without a file."""
    return [index for index in range(count) if not frame_path(folder, index, extension).is_file()]


def resumed_series(
    folder: Path, count: int, missing_ones: Sequence[int], rendered: Iterator[np.ndarray]
) -> Iterator[np.ndarray]:
    """Yield all images of a series in order. Images with the indices `missing_ones` are taken from
    `rendered` and saved. The others are read from the folder."""
    lacking = set(missing_ones)
    for index in range(count):
        path = frame_path(folder, index, "png")
        if index in lacking:
            image = next(rendered)
            encoding.save_png(path, image, encoding.FAST)
        else:
            image = encoding.read_png(path)
        yield image


def video_size(lens: Lens) -> tuple[int, int]:
    """Return the default width and height of the frames of a video in pixels: the size of the
    photos. On a CPU, the longer side has at most `CPU_SIDE` pixels."""
    scale = CPU_SIDE / max(lens.width, lens.height) if current_device() == "cpu" else 1.0
    return scaled((lens.width, lens.height), min(scale, 1.0))


def scaled(size: tuple[int, int], factor: float) -> tuple[int, int]:
    """Return a frame size multiplied by `factor`, with even width and height of at least 2."""
    width, height = (max(round(side * factor / 2), 1) * 2 if factor < 1 else side for side in size)
    return width, height


def video_seconds(run: Run, cameras: Sequence[Camera]) -> float:
    """Estimate the rendering time in seconds of a video with one frame for each camera, with the
    default options, from a few small images."""
    return SideBySide([run], RenderOptions()).seconds([[camera] for camera in cameras])


def announce(out: Path, joined: SideBySide, frames: Sequence[CameraSamples]) -> None:
    """Log the number and size of the frames that will be rendered, and the estimated time. If the
    time exceeds `LONG`, a smaller size is offered."""
    if not frames:
        return
    lens, seconds = frames[0][0].lens, joined.seconds(frames)
    text = f"{len(frames)} frame{'s' * (len(frames) > 1)} of {lens.width}x{lens.height} pixels"
    text = f"rendering {text} to {out}, which takes about {duration(seconds)}"
    width, height = scaled((lens.width, lens.height), math.sqrt(OFFERED / max(seconds, OFFERED)))
    if seconds > LONG and max(width, height) >= MIN_SIDE:
        text += f"; with --size {width}x{height}, it takes about {duration(OFFERED)}"
    log.info("%s", text)
