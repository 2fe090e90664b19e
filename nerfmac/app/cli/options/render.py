"""Arguments of `nerfmac render`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from nerfmac.app.cli.choices import Device
from nerfmac.app.cli.declared import POSITIONAL, Shown


@dataclass(frozen=True)
class Arguments:
    """Render a run along a camera path."""

    run: Annotated[Path, POSITIONAL, Shown("RUN")]
    """Run folder, or a snapshot of instant-ngp (.ingp, .msgpack)."""
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
    frames: Annotated[int | None, Shown("INT")] = None
    """Number of frames. [default: the duration of the path times --fps; for a split, one frame per
    view]"""
    seconds: Annotated[float | None, Shown("FLOAT")] = None
    """Duration of the video in seconds. Cannot be used with --frames."""
    fps: Annotated[float | None, Shown("FLOAT")] = None
    """Frames per second. [default: the rate in a nerfstudio path, otherwise 24]"""
    size: Annotated[str | None, Shown("WxH")] = None
    """Frame width and height in pixels, such as 1280x720. If the photos have portrait
    orientation, wide frames show less of the scene at the top and bottom than the photos. [default:
    the size in a nerfstudio path, otherwise the photo size; 1920x960 for panoramas]"""
    output: Literal["rgb", "depth", "normal", "opacity"] = "rgb"
    """Quantity to render."""
    colormap: Literal["turbo", "inferno", "gray"] = "turbo"
    """Colormap for --output depth."""
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
    near: Annotated[float | None, Shown("FLOAT")] = None
    """Distance of the near plane from the camera in scene units. Density closer to the camera is
    not rendered. [default: --march.near of the run]"""
    crop: Annotated[str | None, Shown("X,Y,Z,X,Y,Z")] = None
    """Box to render, specified by its lowest and highest corners in the coordinates of the input
    scene. Density outside the box is not rendered. nerfmac enlarges the box to whole cells of the
    occupancy grid."""
    samples_per_pixel: Annotated[int | None, Shown("INT")] = None
    """Number of rays per pixel. Larger values reduce aliasing but take proportionally longer.
    [default: 1; 32 with --depth-of-field or --motion-blur]"""
    depth_of_field: float = 0.0
    """Radius of the aperture in scene units, such as 0.02. Larger values increase the blur of
    objects that are out of focus. The value 0 disables depth of field."""
    focus: Annotated[float | None, Shown("FLOAT")] = None
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
    stereo: Annotated[
        Literal["side-by-side", "over-under"] | None, Shown("side-by-side|over-under")
    ] = None
    """Layout of a stereo video, with an image of --size for each eye. side-by-side places the image
    of the left eye on the left, and over-under places it at the top. [default: no stereo]"""
    eye_distance: Annotated[float, Shown("FLOAT")] = 0.0
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
    overwrite: bool = False
    """Replace an existing video, or existing frames in the folder --out."""
    device: Device = "auto"
    """Device to use. auto uses the GPU if available. [default: auto]"""
