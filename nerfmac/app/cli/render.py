"""`nerfmac render`: render novel views of a saved run to a video or to numbered files."""

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from nerfmac.app.cli.arguments import part_of
from nerfmac.app.cli.camera_paths import NamedPath
from nerfmac.app.cli.options import MAX_FRAMES, Render
from nerfmac.app.run import CONFIGURED, Run
from nerfmac.app.snapshots import is_snapshot, open_run
from nerfmac.app.video import VIDEOS, check_output, check_video, even, render_video, video_size
from nerfmac.app.video.frames import CameraSamples, blurred
from nerfmac.backend import choose_device
from nerfmac.common import InputError, checks, log
from nerfmac.config import rendering
from nerfmac.geometry import Camera
from nerfmac.training.method import Method

MAX_SIDE = 8192  # Maximum width and height of a frame in pixels.
PANORAMA_SIZE = 1920, 960  # Default width and height of an equirectangular frame in pixels.


def main(arguments: Render, method: Method = CONFIGURED) -> int:
    """Run `nerfmac render` and return the exit code."""
    options = part_of(arguments, rendering.RenderOptions)
    checks.choice("output", options.output, rendering.OUTPUTS)
    path = NamedPath.read(arguments.path, arguments.transforms)
    fps, size = _fps_and_size(path, arguments)
    out = arguments.out or _default_out(arguments.run, Path(arguments.path).stem)
    is_video = out.suffix.lower() in VIDEOS
    _check(arguments, fps, out)
    choose_device(arguments.device)
    run = open_run(arguments.run, method=method)
    path = path.within(run)
    if size is None:
        lens = path.lens(run)
        has_views = _shows_views(path, arguments)
        size = video_size(lens) if is_video and not has_views else (lens.width, lens.height)
        size = size if options.projection == "perspective" else PANORAMA_SIZE
    size = _even_size(out, size) if is_video else size
    cameras = _cameras(run, path, arguments, fps, size)
    beside = arguments.beside.split(",") if arguments.beside else []
    runs = [run, *(open_run(other, method=method) for other in beside)]
    resume = arguments.resume or is_video
    video = part_of(arguments, rendering.VideoOptions, fps=fps, resume=resume)
    try:
        render_video(runs, cameras, out, options, video)
    except KeyboardInterrupt as interruption:
        frames, again = (f"{out}.frames", "again") if is_video else (out, "with --resume")
        note = f"the frames so far are in {frames}; run the same command {again} to continue"
        interruption.add_note(note)
        raise
    print(out)
    return 0


def _default_out(run: Path, path: str) -> Path:
    if is_snapshot(run):
        return run.with_name(f"{run.stem}-{path}.mp4")
    return run / f"{path}.mp4"


def _fps_and_size(path: NamedPath, arguments: Render) -> tuple[float, tuple[int, int] | None]:
    """Return the frame rate and the frame size. By default, they are the values in the camera path
    file, and these values are logged."""
    from_file, fps = [], arguments.fps
    size, is_flat = _size(arguments.size), arguments.projection == "perspective"
    if size is None and path.file and path.file.size and is_flat:
        size = path.file.size
        for name, pixels in zip(("render_width", "render_height"), size, strict=True):
            checks.number(f"{path.name}: {name}", pixels, low=2, high=MAX_SIDE)
        from_file.append(f"{size[0]}x{size[1]} pixels")
    if fps is None and path.file and path.file.fps:
        fps = path.file.fps
        checks.number(f"{path.name}: fps", fps, low=1, high=rendering.MAX_FPS)
        from_file.append(f"{fps:g} frames per second")
    if from_file:
        values = ", ".join(from_file)
        log.info("%s specifies %s; use --size and --fps to override", path.name, values)
    return rendering.DEFAULT_FPS if fps is None else fps, size


def _check(arguments: Render, fps: float, out: Path) -> None:
    """Check the arguments that do not depend on the run, before the run is loaded."""
    if arguments.frames is not None and arguments.seconds is not None:
        raise InputError("--frames and --seconds cannot be used together; remove one of them")
    checks.optional_number("--seconds", arguments.seconds, low=0.01, high=MAX_FRAMES / fps)
    if out.suffix.lower() in VIDEOS:
        check_video(out, fps)
        if arguments.format != "png":
            raise InputError(
                f"--format {arguments.format} requires a folder, but --out is the video {out}; "
                "remove --format or pass a folder"
            )
    elif out.suffix:
        raise InputError(
            f"cannot render to '{out}': expected a video file ({', '.join(VIDEOS)}) or a folder "
            "name without a file extension"
        )
    if arguments.out or arguments.run.exists():  # The default output is next to or in the run.
        check_output(out, arguments)


def _shows_views(path: NamedPath, arguments: Render) -> bool:
    """Return whether the frames are the views of a split, instead of a path along these views."""
    return path.is_split and not (arguments.frames or arguments.seconds)


def _cameras(
    run: Run, path: NamedPath, arguments: Render, fps: float, size: tuple[int, int]
) -> Sequence[Camera | CameraSamples]:
    """Return the camera of each frame, or several cameras for each frame with motion blur."""
    if _shows_views(path, arguments):
        if arguments.motion_blur:
            raise InputError(
                f"--motion-blur requires a continuous path; add --seconds to make --path "
                f"{path.name} a tour"
            )
        return path.view_cameras(run, size)
    seconds = arguments.seconds or path.seconds
    frames = arguments.frames or max(round(seconds * fps), 1)

    def along(count: int) -> Sequence[Camera]:
        return path.cameras(run, count, size)

    if not arguments.motion_blur:
        return along(frames)
    moments = arguments.samples_per_pixel or rendering.BLURRED_SAMPLES
    return blurred(along, frames, moments, arguments.motion_blur)


def _even_size(out: Path, size: tuple[int, int]) -> tuple[int, int]:
    """Return the largest frame size, at most `size`, that the video `out` supports, and print a
    note if it is smaller."""
    width, height = even(out, size)
    if (width, height) != size:
        print(
            f"nerfmac: the video size is {width}x{height} instead of {size[0]}x{size[1]}, because "
            "H.264 and VP9 require an even width and height; images in a folder can have any size",
            file=sys.stderr,
        )
    return width, height


def _size(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    match = re.fullmatch(r"(\d+)x(\d+)", text)
    if not match:
        raise InputError(f"--size is {text!r}; expected pixels as WxH, such as 800x600")
    width, height = int(match[1]), int(match[2])
    checks.number("--size's width", width, low=2, high=MAX_SIDE)
    checks.number("--size's height", height, low=2, high=MAX_SIDE)
    return width, height
