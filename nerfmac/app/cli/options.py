"""Options of the commands, and options that several commands share. This module imports neither MLX
nor NumPy, so that help pages appear immediately."""

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from nerfmac.app.cli.arguments import POSITIONAL, UNPREFIXED, part_of
from nerfmac.common import InputError
from nerfmac.config import Config, Model, Range, Written
from nerfmac.config.rendering import Box, Color, RenderOptions, VideoOptions, box, color
from nerfmac.config.scenes import CaptureOptions, SceneOptions

MAX_FRAMES = 1_000_000  # Frames of eleven hours at 24 fps, and one gigabyte of camera data.

Device = Literal["auto", "metal", "cuda", "cpu"]
Preset = Literal["auto", "tiny", "small", "base", "big"]


@dataclass(frozen=True)
class SceneFlags(SceneOptions):
    """Options that control how a scene is loaded."""

    typed: ClassVar[Collection[str]] = ()  # Options on the command line. `built` sets this name.

    def options(self) -> SceneOptions:
        """Return the scene options."""
        return part_of(self, SceneOptions)

    def given(self) -> dict[str, Any]:
        """Return the scene options that are given on the command line, keyed by name."""
        options = vars(self.options())
        typed = {flag.removeprefix("--").replace("-", "_") for flag in self.typed}
        return {name: value for name, value in options.items() if name in typed}

    def refuse(self, reason: str) -> None:
        """Raise `InputError` with a `reason` if any of these options is given."""
        for option in self.given():
            is_disabled = option in ("masks", "depth")
            flag = f"{'no-' * is_disabled}{option.replace('_', '-')}"
            raise InputError(f"--{flag} cannot be used: {reason}; remove --{flag}")


@dataclass(frozen=True)
class DeviceFlag:
    """Option for the device."""

    device: Device = "auto"  # Device to use. auto uses the GPU if available. [default: auto]


@dataclass(frozen=True)
class RunFlags(DeviceFlag):
    """Arguments of commands that read a run."""

    run: Annotated[Path, POSITIONAL] = field(kw_only=True)
    """Run folder, or a snapshot of instant-ngp (.ingp, .msgpack)."""


@dataclass(frozen=True)
class Data:
    """List public scenes with their size, license, and source, or download a scene.

    Only the download uses the network.
    """

    scene: Annotated[str | None, POSITIONAL, Written("[SCENE]")] = None
    """Scene to download, such as lego or mipnerf360/room. Without SCENE, nerfmac lists all
    scenes."""
    out: Path = Path("data")
    """Folder for downloads. nerfmac saves the scene in OUT/COLLECTION/SCENE."""


@dataclass(frozen=True)
class Capture(CaptureOptions):
    """Estimate the camera poses of photos or video frames, and write a scene."""

    source: Annotated[Path, POSITIONAL] = field(kw_only=True)
    """Video file, or folder of photos."""
    out: Annotated[Path | None, Written("SCENE")] = None
    """Scene folder. If it contains an unfinished capture of the same source, nerfmac resumes it.
    [default: captures/NAME]"""


@dataclass(frozen=True)
class Inspect(SceneFlags):
    """Summarize a scene, report possible problems, and optionally draw its cameras and points."""

    scene: Annotated[Path, POSITIONAL] = field(kw_only=True)
    """Scene folder, video, or folder of photos. For a video or photos, nerfmac first estimates the
    camera poses."""
    out: Annotated[Path | None, Written("FILE")] = None
    """PNG file for a drawing of cameras and sparse points. [default: no drawing]"""
    match: bool = False
    """Match the images, and report camera poses and focal lengths that contradict the matches.
    Requires the extra capture, and takes minutes."""


@dataclass(frozen=True)
class Train(DeviceFlag, SceneFlags):
    """Train a radiance field on a scene, evaluate it, and render a turntable video."""

    scene: Annotated[Path | None, POSITIONAL, Written("[SCENE]")] = None
    """Scene folder (Blender, instant-ngp, nerfstudio, COLMAP, LLFF, Record3D, Polycam, NeuS, NSVF),
    a video, or a folder of photos. For a video or photos, nerfmac first estimates the camera poses.
    [default: the built-in scene]"""
    out: Annotated[Path | None, Written("FOLDER")] = None
    """Run folder to write. [default: runs/SCENE-TIME]"""
    steps: int | None = None
    """Total number of training steps, including the steps before --resume. [default: --train.steps,
    unless --seconds is given]"""
    seconds: float | None = None
    """Total training time in seconds, including the time before --resume. Cannot be used with
    --steps."""
    preset: Preset = "auto"
    """Model size. auto selects a preset that fits the device and its memory. [default: auto]"""
    resume: bool = False
    """Resume training the run in --out, with the scene and configuration stored in the run."""
    compile: bool = True
    """Compile the training step with mx.compile. For debugging, use --no-compile. Training is
    slower without compilation."""
    memory_limit: Annotated[float | None, Written("GIB")] = None
    """Maximum device memory for training in GiB. [default: all free memory of the device]"""
    memory_fraction: Annotated[float | None, Written("FRACTION")] = None
    """Maximum fraction of the device memory for training. Cannot be used with --memory-limit."""
    video: bool = True  # Render a turntable video after training.
    all_views: bool = False
    """Evaluate all test views. By default, evenly spaced views are evaluated, always the same ones:
    as many as take at most a minute or the training time and, on a CPU, have at most 16.8 million
    pixels."""
    settings: Config = field(default_factory=Config, metadata={UNPREFIXED: True})


@dataclass(frozen=True)
class View(SceneFlags):
    """Show a run in the browser, or train a field on a scene in the browser.

    Arguments after -- are passed to JupyterLab and require --lab.
    """

    path: Annotated[Path | None, POSITIONAL, Written("[RUN|SCENE]")] = None
    """Run folder, snapshot of instant-ngp, scene folder, video, or folder of photos. For a video or
    photos, nerfmac first estimates the camera poses. [default: the built-in scene]"""
    browser: bool = True
    """Open a browser. With --no-browser, nerfmac only prints the address of the page."""
    lab: bool = False  # Open JupyterLab with a notebook that shows the viewer.
    lan: bool = False
    """Accept connections from other devices in the local network, for example from a phone, and
    print the address as a QR code. The address contains a token that grants access."""
    port: Annotated[int | None, Range(1, 65535)] = None
    """Port of the server. [default: the first free port from 8888]"""


@dataclass(frozen=True)
class Render(RenderOptions, VideoOptions, RunFlags):
    """Render a run along a camera path."""

    path: Annotated[str, Written("NAME|FILE.json")] = "orbit"
    """Camera path to render. orbit, spiral, and figure-of-eight move around the scene. train and
    test use the cameras of a split or, with --frames or --seconds, a smooth tour along these
    cameras. FILE.json is a camera path saved by the viewer, nerfstudio, or instant-ngp, or a scene
    file such as transforms_test.json. The cameras in a scene file are used like the cameras of a
    split, but their images are not required."""
    transforms: Annotated[Path | None, Written("FILE.json")] = None
    """nerfstudio's dataparser_transforms.json. This file is required to convert a nerfstudio camera
    path to scene coordinates. [default: dataparser_transforms.json in the same folder as the --path
    file]"""
    frames: Annotated[int | None, Range(1, MAX_FRAMES)] = None
    """Number of frames. [default: the duration of the path times --fps; for a split, one frame per
    view]"""
    seconds: Annotated[float | None, Range(0.01)] = None
    """Duration of the video in seconds. Cannot be used with --frames."""
    size: Annotated[str | None, Written("WxH")] = None
    """Frame width and height in pixels, such as 1280x720. If the photos have portrait
    orientation, wide frames show less of the scene at the top and bottom than the photos. [default:
    the size in a nerfstudio path, otherwise the photo size; on a CPU, the longer side of a video
    has at most 720 pixels; 1920x960 for panoramas]"""
    motion_blur: Annotated[float, Range(0.0, 1.0)] = 0.0
    """Fraction of the frame time during which the shutter is open, such as 0.5. The value 0
    disables motion blur."""
    beside: Annotated[str | None, Written("RUN,...")] = None
    """Other runs of the same scene, separated by commas. nerfmac renders these runs from the same
    cameras and shows them to the right of RUN."""
    out: Annotated[Path | None, Written("FILE.mp4|.webm|.gif|FOLDER")] = None
    """Video file, or folder for numbered files. [default: RUN/PATH.mp4; for a snapshot,
    NAME-PATH.mp4 next to the snapshot]"""


@dataclass(frozen=True)
class Eval(RunFlags):
    """Render every view of a split and compare each rendering with its photo."""

    scene: Annotated[Path | None, Written("SCENE")] = None
    """Scene folder. Required for a snapshot, or if the scene folder of a run has been moved."""
    split: Literal["test", "val", "train"] = "test"  # Split to evaluate.
    background: Literal["white", "black"] = "white"
    """Background color behind renderings and behind photos with an alpha channel."""
    json: Annotated[Path | None, Written("FILE")] = None
    """Also write the metrics and the evaluation protocol to this JSON file."""
    html: Annotated[Path | None, Written("FILE")] = None
    """Also write an HTML page with the photo, rendering, error, and depth of each view."""


@dataclass(frozen=True)
class Export(RunFlags):
    """Export a mesh, points, cameras, or density in the coordinates of the input scene, or an
    interactive HTML page of the scene."""

    file: Annotated[Path, POSITIONAL] = field(kw_only=True)
    """File to write: a mesh (.ply, .obj, .glb), points (.ply with --as points), cameras (.json),
    density (.vdb), or a page (.html)."""
    as_: Literal["mesh", "points", "cameras", "density", "page"] | None = None
    """Kind of data to export. [default: determined by the extension of FILE]"""
    resolution: int | None = None
    """Number of cells along the longest side of the exported box, for a mesh or density. Larger
    values result in finer detail. Memory and time grow with the cube of the resolution. [default:
    256]"""
    threshold: float | None = None
    """Density at the mesh surface, in 1 / scene unit. Lower the threshold to close holes, or raise
    it to remove haze. By default, nerfmac selects the threshold that best matches the surfaces
    along training rays. If the scene has a background, nerfmac by default fuses depth images of the
    training cameras instead of using a threshold."""
    smallest: float | None = None
    """Minimum area of a connected component, as a fraction of the largest component's area. Smaller
    components are removed from the mesh. Raise this value to remove floaters. [default: 0.01]"""
    count: int | None = None  # Number of points in an exported point cloud. [default: 500000]
    crop: Annotated[Box | None, Written("X,Y,Z,X,Y,Z", box)] = None
    """Box to export, specified by its lowest and highest corners in the coordinates of the input
    scene. [default: the box around the occupied cells of the unit cube; the whole scene for
    points]"""
    path: Annotated[str | None, Written("NAME|FILE.json")] = None
    """Camera path that the exported page plays when it opens: orbit, spiral, figure-of-eight,
    train, test, or a camera path file, as in nerfmac render. [default: none]"""
    background: Annotated[Color | None, Written("white|black|R,G,B", color)] = None
    """Background color of the exported page, with R, G, and B from 0 to 255. [default: the mean
    color of the training images, or white if the images have an alpha channel]"""
    title: Annotated[str | None, Written("TEXT")] = None
    """Title of the exported page. [default: the name of the run]"""
    overwrite: bool = False  # Replace FILE if it exists.


@dataclass(frozen=True)
class Info(DeviceFlag):
    """Show the device, the backend and variant of every operation, and the folders of nerfmac."""


@dataclass(frozen=True)
class Profile(DeviceFlag, SceneFlags):
    """Measure the training step time by stage and kernel, on the device and on the host, and the
    time of rendering an image."""

    run_or_scene: Annotated[Path | None, POSITIONAL, Written("[RUN|SCENE]")] = None
    """Run to profile, starting from its saved state, or scene to train before the measurement. The
    run folder is not changed. [default: the built-in scene]"""
    steps: Annotated[int | None, Range(1), Written("N")] = None
    """Number of training steps to time and to include in the timeline of --trace. By default,
    --seconds determines the number of timed steps, and the timeline contains 64 steps."""
    warmup: Annotated[int | None, Range(0), Written("N")] = None
    """Number of training steps before the measurement. [default: 0 for a run, 1024 for a scene]"""
    trace: Annotated[Path | None, Written("FILE.json")] = None
    """Also write a timeline for ui.perfetto.dev or chrome://tracing. It contains training steps,
    occupancy grid updates, the kernels of one step, an evaluation, and a video rendering."""
    gpu_trace: Annotated[Path | None, Written("FILE.gputrace")] = None
    """Also write an Xcode GPU trace of a training step. Requires a Mac and the environment variable
    MTL_CAPTURE_ENABLED=1."""
    model: Model = "hash"
    """Model for profiling a scene. hash uses a hash encoding and small MLPs. vanilla is the
    original NeRF."""
    preset: Preset = "auto"
    """Model size. auto selects a preset that fits the device and its memory. [default: auto]"""
    seconds: Annotated[float, Range(0.01)] = 1.0
    """Approximate time per measurement in seconds. Longer measurements are less noisy."""
    json: Annotated[Path | None, Written("FILE")] = None
    """Also write the measurements to this JSON file."""


@dataclass(frozen=True)
class Selftest:
    """Compare the results and gradients of every kernel with those of its reference implementation
    in plain MLX."""

    device: Literal["all", "metal", "cuda", "cpu"] = "all"
    """Device to test. all tests every device of this machine."""
    operation: Annotated[str | None, Written("NAME")] = None
    """Test only the kernels of this operation. `nerfmac info` lists the operations."""
    report: Annotated[Path | None, Written("FILE")] = None
    """Also write a description of the machine and all failures to this JSON file. Attach the file
    to bug reports."""
    dump_metal: Annotated[Path | None, Written("FOLDER")] = None
    """Write the Metal source code of every kernel to this folder instead of running the tests. This
    option also works on machines without Metal."""


OPTIONS: dict[str, type] = {
    options.__name__.lower(): options
    for options in (
        *(Data, Capture, Inspect, Train),
        *(View, Render, Eval, Export),
        *(Info, Profile, Selftest),
    )
}
"""Options of each command."""
