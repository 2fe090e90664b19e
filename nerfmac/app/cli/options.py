"""Options of the commands. This module imports neither MLX nor NumPy, so that help pages appear
immediately."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Literal

from nerfmac.app.cli.declared import POSITIONAL, Shown
from nerfmac.app.cli.shared_options import Device, Preset, SceneFlags
from nerfmac.config import Config
from nerfmac.config.presets import Model


@dataclass(frozen=True)
class Data:
    """List public scenes with their size, license, and source, or download a scene.

    Only the download uses the network.
    """

    scene: Annotated[str | None, POSITIONAL, Shown("[SCENE]")] = None
    """Scene to download, such as lego or mipnerf360/room. Without SCENE, nerfmac lists all
    scenes."""
    out: Path = Path("data")
    """Folder for downloads. nerfmac saves the scene in OUT/COLLECTION/SCENE."""


@dataclass(frozen=True)
class Capture:
    """Estimate the camera poses of photos or video frames, and write a scene."""

    source: Annotated[Path, POSITIONAL]  # Video file, or folder of photos.
    out: Annotated[Path | None, Shown("SCENE")] = None
    """Scene folder. If it contains an unfinished capture of the same source, nerfmac resumes it.
    [default: captures/NAME]"""
    longest_side: Annotated[int, Shown("PIXELS")] = 1920
    """Maximum length of the longer image side in pixels. Larger images are downscaled."""
    frames: Annotated[int | None, Shown("N")] = None
    """Approximate number of frames to extract from a video. [default: 50 to 200, depending on how
    much the camera moves]"""
    matching: Literal["auto", "sequential", "exhaustive", "window"] = "auto"
    """Pairs of images to match. exhaustive matches all pairs and is slow for hundreds of images.
    sequential matches each image with the next 10 images in name order, and then with images from
    nearby cameras. window matches each image with the next 40 images. auto uses sequential for
    videos, and for photos if their names follow the order of capture. For other photos, and if
    sequential registers too few images, auto uses exhaustive, or window for 100 or more images."""
    focal_35mm: Annotated[float | None, Shown("MM")] = None
    """35 mm equivalent focal length of all images in millimeters. The main camera of most phones
    has an equivalent focal length of 24 to 28 mm. [default: the value in the EXIF data; if the EXIF
    data contains no focal length, nerfmac compares several values]"""
    accept_poses: bool = False
    """Write the scene even if nerfmac finds that the camera poses are probably wrong."""


@dataclass(frozen=True)
class Inspect(SceneFlags):
    """Summarize a scene, report possible problems, and optionally draw its cameras and points."""

    scene: Annotated[Path, POSITIONAL] = field(kw_only=True)
    """Scene folder, video, or folder of photos. For a video or photos, nerfmac first estimates the
    camera poses."""
    out: Annotated[Path | None, Shown("FILE")] = None
    """PNG file for a drawing of cameras and sparse points. [default: no drawing]"""
    match: bool = False
    """Match the images, and report camera poses and focal lengths that contradict the matches.
    Requires the extra capture, and takes minutes."""
    keep_points: bool = False
    """Write the sparse points that --match triangulates to the folder matched of the scene.
    Training uses them like the points of a capture. Requires --match."""


@dataclass(frozen=True)
class Train(Config, SceneFlags):
    """Train a radiance field on a scene, evaluate it, and render a turntable video."""

    scene: Annotated[Path | None, POSITIONAL, Shown("[SCENE]")] = None
    """Scene folder (Blender, instant-ngp, nerfstudio, COLMAP, LLFF, Record3D, Polycam, NeuS, NSVF),
    a video, or a folder of photos. For a video or photos, nerfmac first estimates the camera poses.
    [default: the built-in scene]"""
    out: Annotated[Path | None, Shown("FOLDER")] = None
    """Run folder to write. [default: runs/SCENE-TIME]"""
    steps: int | None = None
    """Total number of training steps, including the steps before --resume. [default: --train.steps,
    unless --seconds is given]"""
    seconds: float | None = None
    """Total training time in seconds, including the time before --resume. Cannot be used with
    --steps."""
    device: Device = "auto"  # Device to use. auto uses the GPU if available. [default: auto]
    preset: Preset = "auto"
    """Model size. auto selects a preset that fits the device and its memory. [default: auto]"""
    resume: bool = False
    """Resume training the run in --out, with the scene and configuration stored in the run."""
    tensorboard: bool = False
    """Also write scalars and images for TensorBoard to FOLDER/tensorboard."""
    compile: bool = True
    """Compile the training step with mx.compile. For debugging, use --no-compile. Training is
    slower without compilation."""
    memory_limit: Annotated[float | None, Shown("GIB")] = None
    """Maximum device memory for training in GiB. [default: all free memory of the device]"""
    memory_fraction: Annotated[float | None, Shown("FRACTION")] = None
    """Maximum fraction of the device memory for training. Cannot be used with --memory-limit."""
    video: bool = True  # Render a turntable video after training.
    all_views: bool = False
    """Evaluate all test views. By default, a CPU evaluates evenly spaced views with at most 16.8
    million pixels, always the same ones."""

    def __post_init__(self) -> None:
        """Skip validation, because the preset may still be `auto`. The method `config` validates
        the settings."""

    def config(self, preset: str) -> Config:
        """Return the settings as a validated `Config` that is based on `preset`."""
        settings = {setting.name: getattr(self, setting.name) for setting in fields(Config)}
        return Config(**settings | {"preset": preset})


@dataclass(frozen=True)
class View(SceneFlags):
    """Show a run in the browser, or train a field on a scene in the browser.

    Arguments after -- are passed to JupyterLab and require --lab.
    """

    path: Annotated[Path | None, POSITIONAL, Shown("[RUN|SCENE]")] = None
    """Run folder, snapshot of instant-ngp, scene folder, video, or folder of photos. For a video or
    photos, nerfmac first estimates the camera poses. [default: the built-in scene]"""
    browser: bool = True
    """Open a browser. With --no-browser, nerfmac only prints the address of the page."""
    lab: bool = False  # Open JupyterLab with a notebook that shows the viewer.
    lan: bool = False
    """Accept connections from other devices in the local network, for example from a phone, and
    print the address as a QR code. The address contains a token that grants access."""
    port: int | None = None  # Port of the server. [default: the first free port from 8888]


@dataclass(frozen=True)
class Render:
    """Render a run along a camera path."""

    run: Annotated[Path, POSITIONAL]  # Run folder, or a snapshot of instant-ngp (.ingp, .msgpack).
    path: Annotated[str, Shown("NAME|FILE.json")] = "orbit"
    """Camera path to render. orbit, spiral, and figure-of-eight move around the scene. train and
    test use the cameras of a split or, with --frames or --seconds, a smooth tour along these
    cameras. FILE.json is a camera path saved by the viewer, nerfstudio, or instant-ngp, or a scene
    file such as transforms_test.json. The cameras in a scene file are used like the cameras of a
    split, but their images are not required."""
    transforms: Annotated[Path | None, Shown("FILE.json")] = None
    """nerfstudio's dataparser_transforms.json. This file is required to convert a nerfstudio camera
    path to scene coordinates. [default: dataparser_transforms.json in the same folder as the --path
    file]"""
    frames: int | None = None
    """Number of frames. [default: the duration of the path times --fps; for a split, one frame per
    view]"""
    seconds: float | None = None  # Duration of the video in seconds. Cannot be used with --frames.
    fps: float | None = None
    """Frames per second. [default: the rate in a nerfstudio path, otherwise 24]"""
    size: Annotated[str | None, Shown("WxH")] = None
    """Frame width and height in pixels, such as 1280x720. If the photos have portrait
    orientation, wide frames show less of the scene at the top and bottom than the photos. [default:
    the size in a nerfstudio path, otherwise the photo size; on a CPU, the longer side of a video
    has at most 720 pixels; 1920x960 for panoramas]"""
    output: Literal["rgb", "depth", "normal", "opacity"] = "rgb"  # Quantity to render.
    colormap: Literal["turbo", "inferno", "gray"] = "turbo"  # Colormap for --output depth.
    depth_range: Annotated[str | None, Shown("NEAR,FAR")] = None
    """Distances, in scene units, that are mapped to the two ends of the depth colormap. [default:
    the depth range of the video, estimated once for all frames]"""
    background: Annotated[str, Shown("auto|white|black|transparent|R,G,B")] = "auto"
    """Background color, with R, G, and B from 0 to 255. auto uses the mean color of the training
    images, or white if the images have an alpha channel or --output is not rgb. transparent writes
    an alpha channel to PNG and EXR files."""
    exposure: float = 0.0
    """Exposure compensation in stops. A value of 1 doubles the brightness, and a value of -1 halves
    it."""
    near: float | None = None
    """Distance of the near plane from the camera in scene units. Density closer to the camera is
    not rendered. [default: --march.near of the run]"""
    crop: Annotated[str | None, Shown("X,Y,Z,X,Y,Z")] = None
    """Box to render, specified by its lowest and highest corners in the coordinates of the input
    scene. Density outside the box is not rendered. nerfmac enlarges the box to whole cells of the
    occupancy grid."""
    samples_per_pixel: int | None = None
    """Number of rays per pixel. Larger values reduce aliasing but take proportionally longer.
    [default: 1; 32 with --depth-of-field or --motion-blur]"""
    depth_of_field: float = 0.0
    """Radius of the aperture in scene units, such as 0.02. Larger values increase the blur of
    objects that are out of focus. The value 0 disables depth of field."""
    focus: float | None = None
    """Focus distance in scene units. [default: the distance to the point that the training cameras
    look at]"""
    motion_blur: float = 0.0
    """Fraction of the frame time during which the shutter is open, such as 0.5. The value 0
    disables motion blur."""
    beside: Annotated[str | None, Shown("RUN,...")] = None
    """Other runs of the same scene, separated by commas. nerfmac renders these runs from the same
    cameras and shows them to the right of RUN."""
    projection: Literal["perspective", "equirectangular"] = "perspective"
    """Camera projection. equirectangular renders a 360 x 180 degree panorama from each camera
    position and adds the metadata for 360 degree players to .mp4 files."""
    stereo: Literal["side-by-side", "over-under"] | None = None
    """Layout of a stereo video, with an image of --size for each eye. side-by-side places the image
    of the left eye on the left, and over-under places it at the top. [default: no stereo]"""
    eye_distance: float = 0.0
    """Distance between the eyes in scene units, such as 0.03. Required with --stereo. Larger values
    increase the impression of depth."""
    format: Literal["png", "exr", "npz"] = "png"
    """Format of numbered files in a folder. png stores images. exr and npz store floating-point
    values, such as depth in scene units."""
    out: Annotated[Path | None, Shown("FILE.mp4|.webm|.gif|FOLDER")] = None
    """Video file, or folder for numbered files. [default: RUN/PATH.mp4; for a snapshot,
    NAME-PATH.mp4 next to the snapshot]"""
    resume: bool = False
    """Resume an interrupted rendering to a folder. To resume an interrupted video, run the same
    command again without this option. Until a video is complete, nerfmac stores its frames in
    OUT.frames."""
    overwrite: bool = False  # Replace an existing video, or existing frames in the folder --out.
    device: Device = "auto"  # Device to use. auto uses the GPU if available. [default: auto]


@dataclass(frozen=True)
class Eval:
    """Render every view of a split and compare each rendering with its photo."""

    run: Annotated[Path, POSITIONAL]  # Run folder, or a snapshot of instant-ngp (.ingp, .msgpack).
    scene: Annotated[Path | None, Shown("SCENE")] = None
    """Scene folder. Required for a snapshot, or if the scene folder of a run has been moved."""
    split: Literal["test", "val", "train"] = "test"  # Split to evaluate.
    background: Literal["white", "black"] = "white"
    """Background color behind renderings and behind photos with an alpha channel."""
    json: Annotated[Path | None, Shown("FILE")] = None
    """Also write the metrics and the evaluation protocol to this JSON file."""
    html: Annotated[Path | None, Shown("FILE")] = None
    """Also write an HTML page with the photo, rendering, error, and depth of each view."""
    lpips: Annotated[Path | None, Shown("WEIGHTS")] = None
    """Also compute LPIPS with the network weights in this .safetensors or .npz file.
    docs/benchmarks.md describes how to create the file."""
    device: Device = "auto"  # Device to use. auto uses the GPU if available. [default: auto]


@dataclass(frozen=True)
class Export:
    """Export a mesh, points, cameras, or density in the coordinates of the input scene, or an
    interactive HTML page of the scene."""

    run: Annotated[Path, POSITIONAL]  # Run folder, or a snapshot of instant-ngp (.ingp, .msgpack).
    file: Annotated[Path, POSITIONAL]
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
    crop: Annotated[str | None, Shown("X,Y,Z,X,Y,Z")] = None
    """Box to export, specified by its lowest and highest corners in the coordinates of the input
    scene. [default: the box around the occupied cells of the unit cube; the whole scene for
    points]"""
    path: Annotated[str | None, Shown("NAME|FILE.json")] = None
    """Camera path that the exported page plays when it opens: orbit, spiral, figure-of-eight,
    train, test, or a camera path file, as in nerfmac render. [default: none]"""
    background: Annotated[str | None, Shown("white|black|R,G,B")] = None
    """Background color of the exported page, with R, G, and B from 0 to 255. [default: the mean
    color of the training images, or white if the images have an alpha channel]"""
    title: Annotated[str | None, Shown("TEXT")] = None
    """Title of the exported page. [default: the name of the run]"""
    overwrite: bool = False  # Replace FILE if it exists.
    device: Device = "auto"  # Device to use. auto uses the GPU if available. [default: auto]


@dataclass(frozen=True)
class Info:
    """Show the device, the backend and variant of every operation, and the folders of nerfmac."""

    device: Device = "auto"  # Device to describe. auto uses the GPU if available. [default: auto]


@dataclass(frozen=True)
class Tune(SceneFlags):
    """Time the kernel variants of each operation, and store the fastest ones for this machine."""

    scene: Annotated[Path | None, POSITIONAL, Shown("[SCENE]")] = None
    """Scene that determines the problem sizes to measure. [default: an object in the unit cube]"""
    device: Device = "auto"  # Device to use. auto uses the GPU if available. [default: auto]
    preset: Preset = "auto"
    """Preset that determines the problem sizes. auto selects a preset that fits the device and its
    memory. [default: auto]"""
    seconds: float = 0.5
    """Approximate time per operation in seconds. Longer measurements are less noisy."""
    json: Annotated[Path | None, Shown("FILE")] = None
    """Also write the measurements to this JSON file."""


@dataclass(frozen=True)
class Bench(SceneFlags):
    """Time each operation, as a kernel and in plain MLX, and the rendering of an image."""

    preset: Preset = "auto"
    """Model size. auto selects a preset that fits the device and its memory. [default: auto]"""
    device: Device = "auto"  # Device to use. auto uses the GPU if available. [default: auto]
    seconds: float = 1.0
    """Approximate time per measurement in seconds. Longer measurements are less noisy."""
    scene: Annotated[Path | None, Shown("SCENE")] = None
    """Scene that determines the problem sizes. [default: the built-in scene]"""
    json: Annotated[Path | None, Shown("FILE")] = None
    """Also write the measurements to this JSON file."""


@dataclass(frozen=True)
class Profile(SceneFlags):
    """Measure the training step time by stage and kernel, on the device and on the host."""

    run_or_scene: Annotated[Path | None, POSITIONAL, Shown("[RUN|SCENE]")] = None
    """Run to profile, starting from its saved state, or scene to train before the measurement. The
    run folder is not changed. [default: the built-in scene]"""
    steps: Annotated[int | None, Shown("N")] = None
    """Number of training steps to time and to include in the timeline of --trace. By default,
    --seconds determines the number of timed steps, and the timeline contains 64 steps."""
    warmup: Annotated[int | None, Shown("N")] = None
    """Number of training steps before the measurement. [default: 0 for a run, 1024 for a scene]"""
    seconds: float = 1.0
    """Approximate time per measurement in seconds. Longer measurements are less noisy."""
    trace: Annotated[Path | None, Shown("FILE.json")] = None
    """Also write a timeline for ui.perfetto.dev or chrome://tracing. It contains training steps,
    occupancy grid updates, the kernels of one step, an evaluation, and a video rendering."""
    json: Annotated[Path | None, Shown("FILE")] = None
    """Also write the measurements to this JSON file."""
    gpu_trace: Annotated[Path | None, Shown("FILE.gputrace")] = None
    """Also write an Xcode GPU trace of a training step. Requires a Mac and the environment variable
    MTL_CAPTURE_ENABLED=1."""
    preset: Preset = "auto"
    """Model size for profiling a scene. auto selects a preset that fits the device and its memory.
    [default: auto]"""
    model: Model = "hash"
    """Model for profiling a scene. hash uses a hash encoding and small MLPs. vanilla is the
    original NeRF."""
    device: Device = "auto"  # Device to use. auto uses the GPU if available. [default: auto]


@dataclass(frozen=True)
class Selftest:
    """Compare the results and gradients of every kernel with those of its reference implementation
    in plain MLX."""

    device: Literal["all", "metal", "cuda", "cpu"] = "all"
    """Device to test. all tests every device of this machine."""
    operation: Annotated[str | None, Shown("NAME")] = None
    """Test only the kernels of this operation. `nerfmac info` lists the operations."""
    report: Annotated[Path | None, Shown("FILE")] = None
    """Also write a description of the machine and all failures to this JSON file. Attach the file
    to bug reports."""
    dump_metal: Annotated[Path | None, Shown("FOLDER")] = None
    """Write the Metal source code of every kernel to this folder instead of running the tests. This
    option also works on machines without Metal."""


OPTIONS: dict[str, type] = {
    options.__name__.lower(): options
    for options in (
        *(Data, Capture, Inspect, Train),
        *(View, Render, Eval, Export),
        *(Info, Tune, Bench, Profile, Selftest),
    )
}
"""Options of each command."""
