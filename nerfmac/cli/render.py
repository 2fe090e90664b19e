"""`nerfmac render`: novel views of a saved run, to a video or to numbered files."""

from __future__ import annotations

import logging
import re
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from nerfmac.backend import choose_device
from nerfmac.cli.arguments import box, numbers, optional
from nerfmac.cli.camera_paths import NamedPath
from nerfmac.cli.choices import Device
from nerfmac.common import checks
from nerfmac.common.checks import InputError
from nerfmac.film import VIDEOS, Shot, Take, blurred, check_video, even, film, refuse_existing
from nerfmac.geometry.cameras import Camera
from nerfmac.rendering.evaluation import BACKGROUNDS
from nerfmac.run import CONFIGURED, Run
from nerfmac.snapshots import is_snapshot, open_run
from nerfmac.training.method import Method

log = logging.getLogger("nerfmac")

BLURRED_SAMPLES = 32
"""Rays through a pixel where a lens or motion blurs it."""

USUAL_FPS, FASTEST = 24.0, 1000.0
"""Frames a second, if nothing is said about them, and at most."""

LARGEST_SIDE = 8192
"""Pixels of a frame's width or height, at most."""

MOST_FRAMES = 1_000_000
"""Of a film: eleven hours at 24 a second, whose cameras take a gigabyte."""

PANORAMA = 1920, 960
"""Pixels of an equirectangular picture."""


@dataclass(frozen=True)
class Arguments:
    """Render a run along a path."""

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folder of a run, or a snapshot of instant-ngp (.ingp, .msgpack)."""
    path: Annotated[str, tyro.conf.arg(metavar="NAME|FILE.json")] = "orbit"
    """orbit, spiral, figure-of-eight or dolly-zoom around the scene; train or test: those views'
    cameras, with --frames or --seconds a smooth tour along them; or a camera path that the viewer,
    nerfstudio or instant-ngp saved."""
    transforms: Annotated[Path | None, optional("FILE.json")] = None
    """nerfstudio's dataparser_transforms.json, where its path is not beside it."""
    frames: Annotated[int | None, optional("INT")] = None
    """Pictures on the path; by default as many as suit it."""
    seconds: Annotated[float | None, optional("FLOAT")] = None
    """How long the video is, in place of --frames."""
    fps: Annotated[float | None, optional("FLOAT")] = None
    """Frames per second of the video; by default those of nerfstudio's path, else 24."""
    size: Annotated[str | None, optional("WxH")] = None
    """Pixels, such as 1280x720; by default those of nerfstudio's path, else as many as the
    photographs have. A wide frame shows less above and below than upright photographs, and more to
    the sides."""
    output: Literal["rgb", "depth", "normal", "opacity"] = "rgb"
    """What is shown."""
    colormap: Literal["turbo", "inferno", "grey"] = "turbo"
    """Colours of depth."""
    depth_range: Annotated[str | None, optional("NEAR,FAR")] = None
    """Distances at the ends of the colour map; by default estimated, the same for all frames."""
    background: Annotated[str, tyro.conf.arg(metavar="white|black|transparent|R,G,B")] = "white"
    """What lies behind the scene; R, G and B from 0 to 255. transparent: PNG and EXR files in a
    folder get an alpha channel."""
    exposure: float = 0.0
    """Stops by which pictures are brighter, or darker if below 0."""
    near: Annotated[float | None, optional("FLOAT")] = None
    """Nothing nearer to the camera than this, in scene units, is shown."""
    crop: Annotated[str | None, optional("X,Y,Z,X,Y,Z")] = None
    """Lowest and highest corner of what is shown, in the coordinates of the scene's files, as in
    nerfmac export."""
    samples_per_pixel: Annotated[int | None, optional("INT")] = None
    """Rays through a pixel: 4 smooth edges; by default 1, or 32 where something is blurred."""
    depth_of_field: float = 0.0
    """Radius of the lens's opening in scene units, such as 0.02; 0: all is sharp."""
    focus: Annotated[float | None, optional("FLOAT")] = None
    """Distance at which it is sharp; by default that of what the training cameras look at."""
    motion_blur: float = 0.0
    """Fraction of the time between frames that the shutter is open, such as 0.5; 0: none."""
    beside: Annotated[str | None, optional("RUN,...")] = None
    """Other runs of the scene, to stand beside it from left to right, by the same cameras."""
    projection: Literal["perspective", "equirectangular"] = "perspective"
    """equirectangular: 360 degrees around, 180 from top to bottom, from the path's places; an .mp4
    tells players so."""
    stereo: Annotated[
        Literal["side-by-side", "over-under"] | None, optional("side-by-side|over-under")
    ] = None
    """For two eyes: the left eye's picture beside or above the right eye's, each of --size."""
    eye_distance: Annotated[float, optional("FLOAT")] = 0.0
    """Between the two eyes of --stereo, in scene units, such as 0.03."""
    format: Literal["png", "exr", "npz"] = "png"
    """Of the files in a folder: pictures, or values such as depth in scene units."""
    out: Annotated[Path | None, optional("FILE.mp4|.webm|.gif|FOLDER")] = None
    """A video, or a folder for numbered files; by default RUN/PATH.mp4, beside a snapshot
    NAME-PATH.mp4."""
    resume: bool = False
    """Go on with an interrupted folder of files; a video's frames are kept until it is complete."""
    overwrite: bool = False
    """Replace what --out names."""
    device: Device = "auto"
    """What computes."""


def main(argv: list[str], method: Method = CONFIGURED) -> int:
    """Render as `argv` says; return the exit code."""
    arguments = tyro.cli(Arguments, prog="nerfmac render", args=argv)
    shot, size = _shot(arguments), _size(arguments.size) if arguments.size else None
    path = NamedPath.read(arguments.path, arguments.transforms)
    fps, size = _asked_for(path, shot, arguments.fps, size)
    out = arguments.out or _own_name(arguments.run, Path(arguments.path).stem)
    _check(arguments, fps, out)
    # A job's time limit ends it as Ctrl-C does: no half video is left.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    choose_device(arguments.device)
    run = open_run(arguments.run, method=method)
    path = path.within(run)
    size = _fitting(out, size or _own_size(run, path, shot))
    cameras = _cameras(run, path, arguments, fps, size)
    beside = arguments.beside.split(",") if arguments.beside else []
    try:
        film(
            [run, *(open_run(other, method=method) for other in beside)],
            cameras,
            out,
            shot,
            fps=fps,
            form=arguments.format,
            resume=arguments.resume,
            overwrite=arguments.overwrite,
        )
    except KeyboardInterrupt as interruption:
        interruption.add_note(_kept(out, resume=arguments.resume))
        raise
    print(out)
    return 0


def _own_name(run: Path, path: str) -> Path:
    """The video's name if nothing is said about it."""
    if is_snapshot(run):
        return run.with_name(f"{run.stem}-{path}.mp4")
    return run / f"{path}.mp4"


def _kept(out: Path, *, resume: bool) -> str:
    """What is left of a film that is interrupted, and how to go on."""
    if out.suffix.lower() not in VIDEOS:
        return f"its frames so far are in {out}; with --resume the same command goes on"
    if resume:
        return f"its frames so far are in {out}.frames, and the same command goes on"
    return f"no part of {out} is kept; with --resume its frames would be"


def _asked_for(
    path: NamedPath, shot: Shot, fps: float | None, size: tuple[int, int] | None
) -> tuple[float, tuple[int, int] | None]:
    """Frames a second, and a frame's size: as flags say, else as the path's file asks; logs that.

    Raises `InputError` for numbers of the file that cannot be.
    """
    taken = []
    if size is None and path.size and shot.projection == "perspective":
        size = path.size
        for name, pixels in zip(("render_width", "render_height"), size, strict=True):
            checks.number(f"{path.name}: {name}", pixels, low=2, high=LARGEST_SIDE)
        taken.append(f"{size[0]}x{size[1]} pixels")
    if fps is None and path.fps:
        fps = path.fps
        checks.number(f"{path.name}: fps", fps, low=1, high=FASTEST)
        taken.append(f"{fps:g} frames a second")
    if taken:
        log.info("as %s asks: %s; --size and --fps go before it", path.name, ", ".join(taken))
    return USUAL_FPS if fps is None else fps, size


def _check(arguments: Arguments, fps: float, out: Path) -> None:
    """Raise `InputError` for what is wrong whatever the run is, before it is read."""
    checks.number("--fps", fps, low=1, high=FASTEST)
    if arguments.frames is not None:
        checks.number("--frames", arguments.frames, low=1, high=MOST_FRAMES, whole=True)
        if arguments.seconds is not None:
            raise InputError("--frames and --seconds say the same; leave one of them out")
    if arguments.seconds is not None:
        checks.number("--seconds", arguments.seconds, low=0.01, high=MOST_FRAMES / fps)
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
) -> Sequence[Camera | Take]:
    """The cameras of every frame."""
    shown = arguments.frames or arguments.seconds
    if path.is_split and not shown:
        if arguments.motion_blur:
            raise InputError(f"--motion-blur needs a tour of --path {path.name}: give --seconds")
        return path.own(run, size)
    seconds = arguments.seconds or path.seconds
    frames = arguments.frames or max(round(seconds * fps), 1)

    def along(count: int) -> Sequence[Camera]:
        return path.cameras(run, count, size)

    if not arguments.motion_blur:
        return along(frames)
    return blurred(along, frames, _samples(arguments), arguments.motion_blur)


def _samples(arguments: Arguments) -> int:
    """Rays through a pixel."""
    if arguments.samples_per_pixel is not None:
        return arguments.samples_per_pixel
    is_blurred = arguments.depth_of_field or arguments.motion_blur
    return BLURRED_SAMPLES if is_blurred else 1


def _shot(arguments: Arguments) -> Shot:
    """What is shown and how. Raises `InputError`."""
    return Shot(
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
        colour_map=arguments.colormap,
        depth_range=_range(arguments.depth_range),
    )


def _own_size(run: Run, path: NamedPath, shot: Shot) -> tuple[int, int]:
    """The size of pictures if nothing is said about it."""
    if shot.projection != "perspective":
        return PANORAMA
    lens = path.lens(run)
    return lens.width, lens.height


def _fitting(out: Path, size: tuple[int, int]) -> tuple[int, int]:
    """The largest size within `size` that `out` can have; prints a note if that is smaller."""
    if out.suffix.lower() not in VIDEOS:
        return size
    width, height = even(out, size)
    if (width, height) != size:
        print(
            f"nerfmac: the video is {width}x{height} and not {size[0]}x{size[1]}: "
            "H.264 and VP9 need an even width and height; pictures in a folder may have any",
            file=sys.stderr,
        )
    return width, height


def _size(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d+)x(\d+)", text)
    if not match:
        raise InputError(f"--size is {text!r}; expected pixels as WxH, such as 800x600")
    width, height = int(match[1]), int(match[2])
    checks.number("--size's width", width, low=2, high=LARGEST_SIDE)
    checks.number("--size's height", height, low=2, high=LARGEST_SIDE)
    return width, height


def _background(text: str) -> tuple[float, float, float] | None:
    if text == "transparent":
        return None
    if text in BACKGROUNDS:
        return BACKGROUNDS[text]
    expected = "white, black, transparent or R,G,B such as 40,40,60"
    red, green, blue = numbers("--background", text, 3, expected)
    return red / 255.0, green / 255.0, blue / 255.0


def _range(text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    near, far = numbers("--depth-range", text, 2, "two distances, such as 0.5,3")
    return near, far
