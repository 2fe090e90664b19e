"""`nerfmac render`: novel views of a saved run, to a video or to pictures."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from nerfmac import checks
from nerfmac.backend import choose_device
from nerfmac.checks import InputError
from nerfmac.cli.arguments import optional
from nerfmac.cli.choices import Device
from nerfmac.cli.outputs import frames
from nerfmac.geometry.cameras import Camera
from nerfmac.paths import CameraPath
from nerfmac.run import CONFIGURED, Run
from nerfmac.scenes import read_again
from nerfmac.training.method import Method
from nerfmac.video import write_frames, write_video


@dataclass(frozen=True)
class Arguments:
    """Render a run along a path."""

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folder of a run."""
    path: Annotated[str, tyro.conf.arg(metavar="orbit|test|FILE.json")] = "orbit"
    """An orbit around the scene, the test views' cameras, or a path that the viewer saved."""
    frames: int = 120
    """Pictures on the path; --path test has as many as there are views."""
    size: Annotated[str | None, optional("WxH")] = None
    """Pixels, such as 1280x720; by default as many as the photographs have."""
    fps: float = 24.0
    """Frames per second of the video."""
    background: Literal["white", "black"] = "white"
    """What lies behind the scene."""
    out: Annotated[Path | None, optional("FILE.mp4|FOLDER")] = None
    """A video, or a folder for numbered PNG pictures; by default RUN/PATH.mp4."""
    device: Device = "auto"
    """What computes."""


def main(argv: list[str], method: Method = CONFIGURED) -> int:
    """Render as `argv` says; return the exit code."""
    arguments = tyro.cli(Arguments, prog="nerfmac render", args=argv)
    checks.number("--frames", arguments.frames, low=1, whole=True)
    checks.number("--fps", arguments.fps, low=1)
    size = _size(arguments.size) if arguments.size else None
    path = _camera_path(arguments.path)
    out = arguments.out or arguments.run / f"{Path(arguments.path).stem}.mp4"
    is_video = out.suffix.lower() == ".mp4"
    if out.suffix and not is_video:
        raise InputError(f"{out} is neither an .mp4 file nor a folder's name")
    choose_device(arguments.device)
    run = Run.load(arguments.run, method=method)
    seen = _test_cameras(run) if arguments.path == "test" else run.scene.cameras
    size = size or (seen[0].lens.width, seen[0].lens.height)
    if is_video:
        size = _even(size)
    if arguments.path != "test":
        seen = _along(run, path, arguments.frames, size)
    cameras = [Camera(camera.lens.within(*size), camera.pose) for camera in seen]
    pictures = frames(run, cameras, arguments.background)
    if is_video:
        write_video(out, pictures, arguments.fps)
    else:
        write_frames(out, pictures)
    print(out)
    return 0


def _even(size: tuple[int, int]) -> tuple[int, int]:
    """The largest even size within `size`; prints a note if that is smaller."""
    width, height = size[0] // 2 * 2, size[1] // 2 * 2
    if (width, height) != size:
        print(
            f"nerfmac: the video is {width}x{height} and not {size[0]}x{size[1]}: "
            "H.264 needs an even width and height; pictures in a folder may have any",
            file=sys.stderr,
        )
    return width, height


def _along(
    run: Run, path: CameraPath | None, count: int, size: tuple[int, int]
) -> Sequence[Camera]:
    """Cameras along `path`, or on an orbit: they see what cameras of `size` see, in more pixels."""
    # Paths give even sizes only. Twice any size is even.
    twice = 2 * size[0], 2 * size[1]
    return run.orbit(count, twice) if path is None else path.cameras(count, twice)


def _size(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d+)x(\d+)", text)
    if not match:
        raise InputError(f"--size is {text!r}; expected pixels as WxH, such as 800x600")
    width, height = int(match[1]), int(match[2])
    checks.number("--size's width", width, low=2, high=8192)
    checks.number("--size's height", height, low=2, high=8192)
    return width, height


def _camera_path(name: str) -> CameraPath | None:
    """The camera path that is a file, before anything slow is begun."""
    if name in ("orbit", "test"):
        return None
    if Path(name).suffix.lower() != ".json":
        raise InputError(f"--path is {name!r}; expected orbit, test or a camera path's FILE.json")
    return CameraPath.load(name)


def _test_cameras(run: Run) -> Sequence[Camera]:
    if run.scene.path is None:
        raise InputError("the run's scene was never in files: its test views are not known")
    scene = read_again(run.scene)
    if not scene.splits.get("test"):
        raise InputError(f"scene {scene.name!r} has no 'test' views; take --path orbit")
    return [frame.camera for frame in scene.splits["test"]]
