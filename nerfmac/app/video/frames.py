"""Rendering of video frames: `FrameRenderer` for one run and one eye, and `SideBySide` for several
runs or two eyes. A frame is the mean of the images of its camera samples. They are spread over the
pixel area, the aperture, and the shutter time."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple, TypeVar

import mlx.core as mx
import numpy as np

from nerfmac.app.paths import center_of
from nerfmac.app.run import Run, seconds_per_pixel
from nerfmac.backend import resumed, to_numpy
from nerfmac.common import Float32Array, Float64Array, InputError, UInt8Array, checks, interval
from nerfmac.config.rendering import OUTPUTS, RenderOptions
from nerfmac.geometry import Camera, Lens, linear_to_srgb, srgb_to_linear
from nerfmac.rendering.view_renderer import ViewRenderer, colors, to_uint8

OnDevice = TypeVar("OnDevice", bound=tuple[mx.array, ...])

MIN_OPACITY = 0.5  # The depth range is estimated from pixels with at least this opacity.
TRIALS = 6  # Number of images for estimating the depth range and the rendering time.
TRIAL_SIDE = 96  # Longer side in pixels of the images for estimating the depth range.


CameraSamples = Sequence[Camera]  # Cameras of one frame, at consecutive times.

PLASTIC = 1.32471795724474602596
"""Real root of x^3 = x + 1. Multiples of its inverse powers, modulo 1, are evenly distributed in
the unit square.

Roberts: The unreasonable effectiveness of quasirandom sequences (2018).
"""


def spread(
    frame: CameraSamples, samples: int, aperture: float = 0.0, focus: float = 1.0
) -> CameraSamples:
    """Create the camera samples of a frame, at least one per camera, by shifting cameras within the
    pixel and on the aperture. A single sample is the unchanged camera. The radius of the aperture
    and the focus distance are in scene units."""
    count = max(samples, len(frame))
    if count == 1:
        return frame
    shifts, squares = _evenly_spread(count, 0.5) - 0.5, _evenly_spread(count, 0.25)
    return [
        _moved(frame[index % len(frame)], shifts[index], aperture * _on_disc(squares[index]), focus)
        for index in range(count)
    ]


def blurred(
    path: Callable[[int], Sequence[Camera]], frames: int, moments: int, shutter: float
) -> list[CameraSamples]:
    """Create the `moments` cameras of each frame with motion blur. `path` returns a given number of
    cameras at equal time intervals. `shutter` is the fraction of the frame time during which the
    shutter is open, from 0.001 to 1."""
    checks.number("shutter", shutter, low=1e-3, high=1.0)
    steps = max(round(moments / shutter), moments)
    cameras = path(frames * steps)
    return [cameras[i * steps : i * steps + moments] for i in range(frames)]


def _moved(camera: Camera, shift: Float64Array, offset: Float64Array, focus: float) -> Camera:
    """Shift a camera's principal point by `shift` (2,) in pixels, and its position by `offset` (2,)
    to the right and up in scene units, so that points at the distance `focus` do not move in the
    image."""
    lens, (right, up) = camera.lens, offset
    cx = lens.cx + shift[0] + right * lens.fl_x / focus
    cy = lens.cy + shift[1] - up * lens.fl_y / focus
    pose = camera.pose.copy()
    pose[:, 3] += pose[:, 0] * right + pose[:, 1] * up
    return Camera(replace(lens, cx=float(cx), cy=float(cy)), pose)


def _evenly_spread(count: int, start: float) -> Float64Array:
    """Return points (count, 2) evenly distributed in the unit square, shifted by `start`."""
    steps = np.array([1.0 / PLASTIC, 1.0 / PLASTIC**2])
    return (start + np.arange(1, count + 1)[:, None] * steps) % 1.0


def _on_disc(point: Float64Array) -> Float64Array:
    """Map a point of the unit square to the unit disc. The map preserves ratios of areas."""
    angle = 2.0 * math.pi * point[1]
    return math.sqrt(point[0]) * np.array([math.cos(angle), math.sin(angle)])


class FrameValues(NamedTuple):
    """Values of a frame in host memory."""

    values: Float32Array  # Values (h, w, 3) or (h, w), as in `PixelValues.values`.
    opacity: Float32Array  # Opacity (h, w) in [0, 1].


class FrameRenderer:
    """Renderer of video frames. Later training of the run does not affect the renderer."""

    def __init__(self, run: Run, options: RenderOptions, eye: float = 0.0) -> None:
        """Create a renderer with its viewpoint shifted to the right by `eye`, in scene units."""
        checks.choice("output", options.output, OUTPUTS)
        self.options, self._eye = options, eye
        self._scene_cameras = run.scene.cameras("train")
        placed = run.scene.placement, run.scene.subject
        self._new_view = partial(ViewRenderer, run.model.trained(run.state), options, *placed)
        self._view = self._new_view()
        _ = self._view.occupied  # Raises now, before any file is written.

    def values(self, frames: Iterable[CameraSamples]) -> Iterator[FrameValues]:
        """Yield the values of each frame. While the caller uses a frame, the device computes the
        next one."""
        for (values, opacity), camera in self._on_host(frames, self._mean):
            size = camera.lens.height, camera.lens.width
            yield FrameValues(values.reshape(*size, *values.shape[1:]), opacity.reshape(size))

    def images(
        self, frames: Iterable[CameraSamples], depth_range: tuple[float, float] = (0.0, 1.0)
    ) -> Iterator[UInt8Array]:
        """Yield the image of each frame, uint8 (h, w, 3), with the colors of
        `view_renderer.colors`. If the background is transparent, the shape is (h, w, 4), with
        straight alpha.

        While the caller uses a frame, the device computes the next one. `depth_range` contains the
        distances in scene units at the two ends of the colormap.
        """

        def draw(frame: CameraSamples) -> tuple[mx.array]:
            return (to_uint8(colors(*self._mean(frame), self.options, depth_range)),)

        for (pixels,), camera in self._on_host(frames, draw):
            yield pixels.reshape(camera.lens.height, camera.lens.width, -1)

    def _on_host(
        self, frames: Iterable[CameraSamples], draw: Callable[[CameraSamples], tuple[mx.array, ...]]
    ) -> Iterator[tuple[list[np.ndarray], Camera]]:
        """Yield the arrays of `draw(frame)` in host memory, and the camera of each frame."""
        given = list(frames)

        def from_frame(first: int) -> Iterator[tuple[list[np.ndarray], Camera]]:
            self._view = self._new_view()
            items = ((draw(frame), frame[0]) for frame in given[first:])
            for arrays, camera in _one_ahead(items):
                with interval("wait for a frame"):
                    on_host = [to_numpy(array) for array in arrays]
                yield on_host, camera

        return resumed(from_frame)

    def depth_range(self, frames: Sequence[CameraSamples]) -> tuple[float, float]:
        """Return the nearest and the farthest distance of the colormap in scene units, for all
        frames. The default is the 1st and the 99th percentile of the distances in a few small
        images, or (0, 1) if the output is not depth or no surface is visible."""
        if self.options.output != "depth":
            return 0.0, 1.0
        if self.options.depth_range is not None:
            return self.options.depth_range
        parts = []
        for camera in _spread_over(frames):
            scale = min(1.0, TRIAL_SIDE / max(camera.lens.width, camera.lens.height))
            size = (max(round(side * scale), 1) for side in (camera.lens.width, camera.lens.height))
            seen = self._view.render(Camera(camera.lens.scaled(*size), camera.pose), self._eye)
            parts.append(to_numpy(seen.depth)[to_numpy(seen.opacity) > MIN_OPACITY])
        depths = np.concatenate(parts)
        if not len(depths):
            return 0.0, 1.0
        low, high = np.percentile(depths, [1, 99])
        return float(low), float(max(high, low + 1e-3))

    def seconds_per_pixel(self, cameras: Sequence[Camera]) -> float:
        """Measure the rendering time of a ray in seconds, with small images from `cameras`."""
        return seconds_per_pixel(lambda camera: self._view.render(camera, self._eye), cameras)

    def _mean(self, frame: CameraSamples) -> tuple[mx.array, mx.array]:
        """Return the values and opacity of each pixel, averaged over the samples of a frame."""
        options, output = self.options, self.options.output
        cameras = spread(frame, options.samples, options.depth_of_field, self._focus(frame[0]))
        if len(cameras) == 1:
            seen = self._view.render(cameras[0], self._eye)
            return seen.values, seen.opacity
        is_color, is_clear = output == "rgb", options.background_color is None
        is_weighted = output in ("depth", "normal") or (is_color and is_clear)
        total, opacity = mx.array(0.0), mx.array(0.0)
        for camera in cameras:
            seen = self._view.render(camera, self._eye)
            values = srgb_to_linear(seen.values) if is_color else seen.values
            if is_weighted:
                values = values * seen.opacity.reshape(-1, *[1] * (values.ndim - 1))
            total, opacity = total + values, opacity + seen.opacity
            mx.async_eval(total, opacity)  # At most one more image is in memory.
        count = float(len(cameras))
        if output == "normal":
            total = total / mx.maximum(mx.linalg.norm(total, axis=1, keepdims=True), 1e-6)
        elif is_weighted:
            total = total / mx.maximum(opacity, 1e-6).reshape(-1, *[1] * (total.ndim - 1))
        else:
            total = total / count
        return linear_to_srgb(total) if is_color else total, opacity / count

    def _focus(self, camera: Camera) -> float:
        """Return the focus distance in scene units."""
        if self.options.focus is not None or not self.options.depth_of_field:
            return self.options.focus or 1.0
        ahead = (center_of(self._scene_cameras) - camera.pose[:, 3]) @ -camera.pose[:, 2]
        return max(abs(float(ahead)), 1e-3)


class SideBySide:
    """Renderer of several runs side by side, or of one run for one or two eyes."""

    def __init__(self, runs: Sequence[Run], options: RenderOptions) -> None:
        """Create the renderers of `runs`, from left to right."""
        if options.stereo is not None and len(runs) > 1:
            raise InputError("stereo cannot be combined with several runs; pass a single run")
        for other in runs[1:]:
            if (other.scene.path, other.scene.extent) != (runs[0].scene.path, runs[0].scene.extent):
                raise InputError(
                    f"{runs[0].scene.path} and {other.scene.path} are different scenes; only runs "
                    "of the same scene can be rendered side by side"
                )
        self._axis = 0 if options.stereo == "over-under" else 1
        right = 0.5 * options.eye_distance
        eyes = [0.0] if options.stereo is None else [-right, right]
        self.renderers = [FrameRenderer(run, options, eye) for run in runs for eye in eyes]

    def size(self, lens: Lens) -> tuple[int, int]:
        """Return the width and height of the joined images in pixels. `lens` is of one image."""
        rows, columns = (len(self.renderers), 1) if self._axis == 0 else (1, len(self.renderers))
        return columns * lens.width, rows * lens.height

    def seconds(self, frames: Sequence[CameraSamples]) -> float:
        """Estimate the rendering time of `frames` in seconds from a few small images."""
        lens, cameras = frames[0][0].lens, _spread_over(frames)
        rays = len(frames) * lens.width * lens.height
        rays *= max(self.renderers[0].options.samples, len(frames[0]))
        return rays * sum(renderer.seconds_per_pixel(cameras) for renderer in self.renderers)

    def images(
        self, frames: Sequence[CameraSamples], numbers: Iterable[int] | None = None
    ) -> Iterator[UInt8Array]:
        """Yield images that join the runs or eyes, uint8 (h, w, 3), or (h, w, 4) with alpha.
        `numbers` are the indices of the frames to render, by default of all frames. The depth range
        is estimated from all frames."""
        chosen = frames if numbers is None else [frames[number] for number in numbers]
        ranges = [renderer.depth_range(frames) for renderer in self.renderers]
        depth_range = min(low for low, _ in ranges), max(high for _, high in ranges)
        sources = [renderer.images(chosen, depth_range) for renderer in self.renderers]
        for images in zip(*sources, strict=True):
            yield np.concatenate(images, axis=self._axis)


def _spread_over(frames: Sequence[CameraSamples]) -> list[Camera]:
    """Return the first cameras of a few frames, evenly spaced."""
    chosen = np.linspace(0, len(frames) - 1, min(TRIALS, len(frames))).astype(int)
    return [frames[index][0] for index in chosen]


def _one_ahead(items: Iterable[tuple[OnDevice, Camera]]) -> Iterator[tuple[OnDevice, Camera]]:
    """Yield each item after the device has started to compute the next item."""
    waiting: tuple[OnDevice, Camera] | None = None
    coming = iter(items)
    while True:
        with interval("begin a frame"):
            item = next(coming, None)
            if item is not None:
                mx.async_eval(*item[0])
        if waiting is not None:
            yield waiting
        if item is None:
            return
        waiting = item
