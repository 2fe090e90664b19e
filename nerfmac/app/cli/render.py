"""`nerfmac render`: novel views of a saved run, to a video or to numbered files."""

from __future__ import annotations

import logging
import re
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from nerfmac.app.cli.arguments import background, box, numbers, parsed
from nerfmac.app.cli.camera_paths import NamedPath
from nerfmac.app.cli.choices import Device
from nerfmac.app.cli.declared import POSITIONAL, Shown
from nerfmac.app.run import CONFIGURED, Run
from nerfmac.app.snapshots import is_snapshot, open_run
from nerfmac.app.video import (
    VIDEOS,
    CameraSamples,
    RenderOptions,
    blurred,
    check_video,
    even,
    refuse_existing,
    render_video,
)
from nerfmac.backend import choose_device
from nerfmac.common import checks
from nerfmac.common.checks import InputError
from nerfmac.geometry.cameras import Camera
from nerfmac.rendering.evaluation import BACKGROUNDS
from nerfmac.rendering.pace import seconds_per_pixel
from nerfmac.training.method import Method

log = logging.getLogger("nerfmac")

BLURRED_SAMPLES = 32
"""Default of --samples-per-pixel with --depth-of-field or --motion-blur."""

DEFAULT_FPS, MAX_FPS = 24.0, 1000.0

MAX_SIDE = 8192
"""Largest width and height of a frame, in pixels."""

MAX_FRAMES = 1_000_000
"""Largest number of frames: eleven hours at 24 per second; their cameras take a gigabyte."""

PANORAMA_SIZE = 1920, 960
"""Default width and height of an equirectangular frame."""


@dataclass(frozen=True)
class Arguments:
    """Render a run along a camera path."""

    run: Annotated[Path, POSITIONAL, Shown("RUN")]
    """Folder of a run, or a snapshot of instant-ngp (.ingp, .msgpack)."""
    path: Annotated[str, Shown("NAME|FILE.json")] = "orbit"
    """orbit, spiral or figure-of-eight: a move around the scene. train or test: the
    cameras of these views; with --frames or --seconds a smooth tour along them. FILE.json: a camera
    path saved by the viewer, nerfstudio or instant-ngp; or a scene's file, such as a
    transforms_test.json, whose cameras are used like those of a split and need no images."""
    transforms: Annotated[Path | None, Shown("FILE.json")] = None
    """nerfstudio's dataparser_transforms.json, which maps a nerfstudio camera path to the scene's
    coordinates. By default the one beside the --path file."""
    frames: Annotated[int | None, Shown("INT")] = None
    """Number of frames; by default the path's duration times --fps, or one per view of a split."""
    seconds: Annotated[float | None, Shown("FLOAT")] = None
    """Duration of the video, in place of --frames."""
    fps: Annotated[float | None, Shown("FLOAT")] = None
    """Frames per second; by default the rate in nerfstudio's path, else 24."""
    size: Annotated[str | None, Shown("WxH")] = None
    """Width and height in pixels, such as 1280x720. By default the size in nerfstudio's path,
    else that of the photos; for a panorama 1920x960. In a move or tour, a wide frame shows
    less above and below than upright photos, and more to the sides."""
    output: Literal["rgb", "depth", "normal", "opacity"] = "rgb"
    """Quantity to render."""
    colormap: Literal["turbo", "inferno", "gray"] = "turbo"
    """Color map for --output depth."""
    depth_range: Annotated[str | None, Shown("NEAR,FAR")] = None
    """Distances at the two ends of the depth's color map, in scene units; by default estimated
    once for all frames."""
    background: Annotated[str, Shown("auto|white|black|transparent|R,G,B")] = "auto"
    """Color where the run has seen nothing; R, G and B from 0 to 255. auto: the mean color of the
    training images, or white if these have alpha or if --output is not rgb. transparent: PNG and
    EXR files get an alpha channel."""
    exposure: float = 0.0
    """Brightness in stops: 1 doubles the light, -1 halves it."""
    near: Annotated[float | None, Shown("FLOAT")] = None
    """Hide everything nearer to the camera than this, in scene units; by default the run's
    --march.near."""
    crop: Annotated[str | None, Shown("X,Y,Z,X,Y,Z")] = None
    """Show only a box: its lowest and highest corner, in the coordinates of the scene's files. It
    is enlarged to whole cells of the occupancy grid."""
    samples_per_pixel: Annotated[int | None, Shown("INT")] = None
    """Rays per pixel. With 4, edges are smooth and rendering takes 4 times as long; by default 1,
    or 32 with --depth-of-field or --motion-blur."""
    depth_of_field: float = 0.0
    """Radius of the aperture in scene units, such as 0.02. Larger: more blur; 0: none."""
    focus: Annotated[float | None, Shown("FLOAT")] = None
    """Distance of sharp focus in scene units; by default the distance of the point where the
    axes of the training cameras meet."""
    motion_blur: float = 0.0
    """Fraction of a frame's time that the shutter is open, such as 0.5; 0: no motion blur."""
    beside: Annotated[str | None, Shown("RUN,...")] = None
    """Other runs of the same scene, separated by commas: they appear to the right of this one, seen
    from the same cameras."""
    projection: Literal["perspective", "equirectangular"] = "perspective"
    """equirectangular: a 360 x 180 degree panorama from each camera's position, marked as such in
    an .mp4."""
    stereo: Annotated[
        Literal["side-by-side", "over-under"] | None, Shown("side-by-side|over-under")
    ] = None
    """Render a image of --size for each eye. side-by-side: left eye on the left; over-under: left
    eye above."""
    eye_distance: Annotated[float, Shown("FLOAT")] = 0.0
    """Distance between the eyes in scene units, such as 0.03; required with --stereo. Larger: a
    stronger impression of depth."""
    format: Literal["png", "exr", "npz"] = "png"
    """Format of the files in a folder: images as png, or float values as exr or npz, such as
    depth in scene units."""
    out: Annotated[Path | None, Shown("FILE.mp4|.webm|.gif|FOLDER")] = None
    """Video to write, or folder for numbered files; by default RUN/PATH.mp4, or NAME-PATH.mp4 next
    to a snapshot."""
    resume: bool = False
    """Continue an interrupted rendering to a folder. A video needs no flag: its frames stay in
    OUT.frames until it is complete, and the same command continues it."""
    overwrite: bool = False
    """Replace the video or the frames that --out already holds."""
    device: Device = "auto"
    """Device that renders; auto takes the GPU if there is one."""


def main(argv: list[str], method: Method = CONFIGURED) -> int:
    """Render as `argv` says; return the exit code."""
    arguments = parsed(Arguments, argv)
    options, size = _options(arguments), _size(arguments.size) if arguments.size else None
    path = NamedPath.read(arguments.path, arguments.transforms)
    fps, size = _fps_and_size(path, options, arguments.fps, size)
    out = arguments.out or _default_out(arguments.run, Path(arguments.path).stem)
    _check(arguments, fps, out)
    # A job's time limit ends it as Ctrl-C does: no half video is left.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    choose_device(arguments.device)
    run = open_run(arguments.run, method=method)
    if arguments.background == "auto" and options.output == "rgb":
        options = replace(options, background=run.scene.backdrop)
    path = path.within(run)
    if size is None:
        lens = path.lens(run)
        is_flat = options.projection == "perspective"
        size = (lens.width, lens.height) if is_flat else PANORAMA_SIZE
    size = _even_size(out, size)
    cameras = _cameras(run, path, arguments, fps, size)
    beside = arguments.beside.split(",") if arguments.beside else []
    runs = [run, *(open_run(other, method=method) for other in beside)]
    _announce(runs, cameras, out, options)
    try:
        render_video(
            runs,
            cameras,
            out,
            options,
            fps=fps,
            form=arguments.format,
            resume=arguments.resume or out.suffix.lower() in VIDEOS,
            overwrite=arguments.overwrite,
        )
    except KeyboardInterrupt as interruption:
        interruption.add_note(_what_is_kept(out))
        raise
    print(out)
    return 0


def _default_out(run: Path, path: str) -> Path:
    if is_snapshot(run):
        return run.with_name(f"{run.stem}-{path}.mp4")
    return run / f"{path}.mp4"


def _announce(
    runs: Sequence[Run],
    cameras: Sequence[Camera | CameraSamples],
    out: Path,
    options: RenderOptions,
) -> None:
    """Log the number and size of the frames, and about how long they take."""
    first = cameras[0]
    camera = first if isinstance(first, Camera) else first[0]
    rays = camera.lens.width * camera.lens.height * len(cameras) * len(runs)
    rays *= (1 if isinstance(first, Camera) else len(first)) * (2 if options.stereo else 1)
    if isinstance(first, Camera):
        rays *= options.samples
    seconds = rays * seconds_per_pixel(runs[0].renderer(), [camera])
    size = f"{camera.lens.width}x{camera.lens.height}"
    frames = f"{len(cameras)} frame{'s' * (len(cameras) > 1)} of {size} pixels"
    log.info("rendering %s to %s takes about %s", frames, out, _duration(seconds))


def _duration(seconds: float) -> str:
    """Text such as "40 seconds", "3 minutes" or "2.5 hours"."""
    if seconds < 90:
        return f"{max(round(seconds), 1)} second{'s' * (round(seconds) > 1)}"
    if seconds < 5400:
        return f"{round(seconds / 60)} minutes"
    return f"{seconds / 3600:.1f} hours"


def _what_is_kept(out: Path) -> str:
    """Text about the frames that an interrupted rendering leaves, and how to continue it."""
    if out.suffix.lower() not in VIDEOS:
        return f"its frames so far are in {out}; with --resume the same command continues"
    return f"its frames so far are in {out}.frames, and the same command continues"


def _fps_and_size(
    path: NamedPath, options: RenderOptions, fps: float | None, size: tuple[int, int] | None
) -> tuple[float, tuple[int, int] | None]:
    """Frame rate and size from the flags, else from the path's file; the log says if the latter.

    Raises `InputError` for bad numbers in the file.
    """
    from_file = []
    if size is None and path.size and options.projection == "perspective":
        size = path.size
        for name, pixels in zip(("render_width", "render_height"), size, strict=True):
            checks.number(f"{path.name}: {name}", pixels, low=2, high=MAX_SIDE)
        from_file.append(f"{size[0]}x{size[1]} pixels")
    if fps is None and path.fps:
        fps = path.fps
        checks.number(f"{path.name}: fps", fps, low=1, high=MAX_FPS)
        from_file.append(f"{fps:g} frames a second")
    if from_file:
        named = ", ".join(from_file)
        log.info("as %s asks: %s; --size and --fps override it", path.name, named)
    return DEFAULT_FPS if fps is None else fps, size


def _check(arguments: Arguments, fps: float, out: Path) -> None:
    """Raise `InputError` for arguments that are wrong for any run, before the run is read."""
    checks.number("--fps", fps, low=1, high=MAX_FPS)
    if arguments.frames is not None:
        checks.number("--frames", arguments.frames, low=1, high=MAX_FRAMES, whole=True)
        if arguments.seconds is not None:
            raise InputError("--frames and --seconds say the same; leave one of them out")
    if arguments.seconds is not None:
        checks.number("--seconds", arguments.seconds, low=0.01, high=MAX_FRAMES / fps)
    checks.number("--motion-blur", arguments.motion_blur, low=0.0, high=1.0)
    if out.suffix.lower() in VIDEOS:
        check_video(out, fps)
        if arguments.format != "png":
            raise InputError(f"--format {arguments.format} is for a folder, but --out is a video")
    elif out.suffix:
        raise InputError(
            f"{out} is neither a video ({', '.join(VIDEOS)}) nor a folder's name, without an ending"
        )
    refuse_existing(out, resume=arguments.resume, overwrite=arguments.overwrite)


def _cameras(
    run: Run, path: NamedPath, arguments: Arguments, fps: float, size: tuple[int, int]
) -> Sequence[Camera | CameraSamples]:
    """The camera of each frame, or with motion blur the cameras of each frame."""
    if path.is_split and not (arguments.frames or arguments.seconds):
        if arguments.motion_blur:
            raise InputError(f"--motion-blur needs a tour of --path {path.name}: give --seconds")
        return path.view_cameras(run, size)
    seconds = arguments.seconds or path.seconds
    frames = arguments.frames or max(round(seconds * fps), 1)

    def along(count: int) -> Sequence[Camera]:
        return path.cameras(run, count, size)

    if not arguments.motion_blur:
        return along(frames)
    return blurred(along, frames, _samples(arguments), arguments.motion_blur)


def _samples(arguments: Arguments) -> int:
    if arguments.samples_per_pixel is not None:
        return arguments.samples_per_pixel
    is_blurred = arguments.depth_of_field or arguments.motion_blur
    return BLURRED_SAMPLES if is_blurred else 1


def _options(arguments: Arguments) -> RenderOptions:
    """The `RenderOptions` that the arguments give. Raises `InputError`."""
    depth_range = None
    if arguments.depth_range is not None:
        expected = "two distances, such as 0.5,3"
        near, far = numbers("--depth-range", arguments.depth_range, 2, expected)
        depth_range = near, far
    return RenderOptions(
        output=arguments.output,
        background=_background(arguments.background),
        exposure=arguments.exposure,
        crop=None if arguments.crop is None else box("--crop", arguments.crop),
        near=arguments.near,
        samples=_samples(arguments),
        aperture=arguments.depth_of_field,
        focus=arguments.focus,
        projection=arguments.projection,
        stereo=arguments.stereo,
        eyes=arguments.eye_distance,
        color_map=arguments.colormap,
        depth_range=depth_range,
    )


def _even_size(out: Path, size: tuple[int, int]) -> tuple[int, int]:
    """The largest size within `size` that `out` can have; prints a note if it is smaller."""
    if out.suffix.lower() not in VIDEOS:
        return size
    width, height = even(out, size)
    if (width, height) != size:
        print(
            f"nerfmac: the video is {width}x{height} and not {size[0]}x{size[1]}: "
            "H.264 and VP9 need an even width and height; images in a folder may have any",
            file=sys.stderr,
        )
    return width, height


def _size(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d+)x(\d+)", text)
    if not match:
        raise InputError(f"--size is {text!r}; expected pixels as WxH, such as 800x600")
    width, height = int(match[1]), int(match[2])
    checks.number("--size's width", width, low=2, high=MAX_SIDE)
    checks.number("--size's height", height, low=2, high=MAX_SIDE)
    return width, height


def _background(text: str) -> tuple[float, float, float] | None:
    if text == "transparent":
        return None
    if text == "auto":  # the run, which is not read yet, may have another one
        return BACKGROUNDS["white"]
    return background(text, ("auto", *BACKGROUNDS, "transparent"))
