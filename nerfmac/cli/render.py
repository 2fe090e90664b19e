"""`nerfmac render`: novel views of a saved run, to a video or to pictures."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from nerfmac import checks
from nerfmac.backend import choose_device
from nerfmac.checks import InputError
from nerfmac.cli.choices import Device
from nerfmac.cli.outputs import frames
from nerfmac.geometry.cameras import Camera
from nerfmac.paths import CameraPath
from nerfmac.run import Run
from nerfmac.scenes import load_scene
from nerfmac.video import write_frames, write_video


@dataclass(frozen=True)
class Arguments:
    """Render a run along a path."""

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folder of a run."""
    path: Annotated[str, tyro.conf.arg(metavar="orbit|test|FILE.json")] = "orbit"
    """A turn around the scene, the test views' cameras, or a camera path that the viewer saved."""
    frames: int = 120
    """Pictures on the path; --path test has as many as there are views."""
    size: str | None = None
    """Pixels as WxH; by default the photographs'."""
    fps: float = 24.0
    """Frames per second of the video."""
    background: Literal["white", "black"] = "white"
    """What lies behind the scene."""
    out: Path | None = None
    """FILE.mp4, or a folder for numbered pictures; by default RUN/PATH.mp4."""
    device: Device = "auto"
    """What computes."""


def main(argv: list[str]) -> int:
    """Render as `argv` says; return the exit code."""
    arguments = tyro.cli(Arguments, prog="nerfmac render", args=argv)
    checks.number("frames", arguments.frames, low=1, whole=True)
    size = _size(arguments.size) if arguments.size else None
    path = _camera_path(arguments.path)
    choose_device(arguments.device)
    run = Run.load(arguments.run)
    if path is not None:
        lens = run.scene.cameras[0].lens
        cameras = path.cameras(arguments.frames, size or (lens.width, lens.height))
    elif arguments.path == "test":
        cameras = _test_cameras(run, size)
    else:
        cameras = run.orbit(arguments.frames, size)
    out = arguments.out or arguments.run / f"{Path(arguments.path).stem}.mp4"
    pictures = frames(run, cameras, arguments.background)
    if out.suffix.lower() == ".mp4":
        write_video(out, pictures, arguments.fps)
    elif out.suffix:
        raise InputError(f"{out} is neither an .mp4 file nor a folder's name")
    else:
        write_frames(out, pictures)
    print(out)
    return 0


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


def _test_cameras(run: Run, size: tuple[int, int] | None) -> list[Camera]:
    if run.scene.path is None:
        raise InputError("the run's scene was never in files: its test views are not known")
    scene = load_scene(run.scene.path, test_every=run.scene.test_every)
    if not scene.splits.get("test"):
        raise InputError(f"scene {scene.name!r} has no 'test' views; take --path orbit")
    cameras = [frame.camera for frame in scene.splits["test"]]
    lens = cameras[0].lens
    width, height = size or (lens.width, lens.height)
    # Even, as video needs it.
    width, height = width // 2 * 2, height // 2 * 2
    return [Camera(camera.lens.scaled(width, height), camera.pose) for camera in cameras]
