"""`Frames`: what takes see of a run, by a `Shot`: as values, and as pictures of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from nerfmac.backend import unfused
from nerfmac.common.checks import InputError
from nerfmac.common.timeline import interval
from nerfmac.film.shot import Shot
from nerfmac.film.takes import Take, spread
from nerfmac.geometry.bounds import from_centre
from nerfmac.geometry.cameras import Camera
from nerfmac.geometry.colour import exposed, linear_to_srgb, srgb_to_linear
from nerfmac.geometry.rays import Rays, camera_rays, panorama_rays
from nerfmac.ops.march import Occupied
from nerfmac.paths import centre_of
from nerfmac.rendering.colour_map import MAPS, coloured
from nerfmac.rendering.crop import cropped
from nerfmac.rendering.normals import normals
from nerfmac.rendering.renderer import Renderer
from nerfmac.run import Run, placement_of

Values = npt.NDArray[np.float32]
Pixels = npt.NDArray[np.uint8]
OnDevice = TypeVar("OnDevice", bound=tuple[mx.array, ...])

CELLS = 128
"""Without a grid, normals are taken over cells of which so many fit along the unit cube."""

POINTS = 2**17
"""Normals computed at a time: each takes eight densities."""

SEEN = 0.5
"""Opacity from which a pixel counts for the range of depths."""

TRIALS, TRIAL_SIDE = 6, 96
"""Pictures, and the pixels of their longer side, by which the range of depths is estimated."""


class Frame(NamedTuple):
    """One frame's values, on the host."""

    values: Values
    """(h, w, 3) sRGB or normals, (h, w) distances in scene units or opacity.

    Colours are over the background; with a transparent one they are straight, not multiplied by the
    opacity.
    """
    opacity: Values
    """(h, w) in [0, 1]."""


class _Seen(NamedTuple):
    """A row a pixel, on the device."""

    values: mx.array
    opacity: mx.array


class Frames:
    """Renders takes of a run as it is now."""

    def __init__(self, run: Run, shot: Shot, eye: float = 0.0) -> None:
        """Show what an eye sees that is `eye` scene units to the right of the takes' cameras.

        Raises `InputError` if `shot` asks for what the run's sampler cannot do.
        """
        self.shot, self._eye = shot, eye
        self._run, self._field = run, run.trainer.field
        self._occupied = run.trainer.sampler.occupied(run.state.sampling)
        if shot.crop is not None or shot.near is not None:
            self._occupied = _seen_cells(run, self._occupied, shot)
        self._renderer: Renderer = run.trainer.renderer(run.state, self._occupied)

    def values(
        self, takes: Sequence[Take], numbers: Iterable[int] | None = None
    ) -> Iterator[Frame]:
        """The takes' values, one after another, while the device computes the next.

        Of all takes, or of those with these `numbers`.
        """
        chosen = [takes[i] for i in (range(len(takes)) if numbers is None else numbers)]
        for seen, camera in _ahead((self._mean(take), take[0]) for take in chosen):
            size = camera.lens.height, camera.lens.width
            with interval("wait for a frame"):
                values, opacity = (np.array(part) for part in seen)
            yield Frame(values.reshape(*size, *values.shape[1:]), opacity.reshape(size))

    def pictures(
        self,
        takes: Sequence[Take],
        numbers: Iterable[int] | None = None,
        shades: tuple[float, float] | None = None,
    ) -> Iterator[Pixels]:
        """The takes' pictures, uint8 (h, w, 3), as `values` gives their values.

        With a transparent background they are (h, w, 4), with straight alpha.

        Depth is shown by the colour map, normals by 0.5 + 0.5 normal as red, green and blue, and
        the background behind both. The colour map's ends are `shades`, by default those of all
        takes.
        """
        chosen = [takes[i] for i in (range(len(takes)) if numbers is None else numbers)]
        shades = shades or self.shades(takes)
        drawn = ((self._picture(self._mean(take), shades), take[0]) for take in chosen)
        for (pixels,), camera in _ahead(drawn):
            with interval("wait for a frame"):
                picture = np.array(pixels)
            yield picture.reshape(camera.lens.height, camera.lens.width, -1)

    def _picture(self, seen: _Seen, shades: tuple[float, float]) -> tuple[mx.array]:
        values, opacity = seen.values, seen.opacity[:, None]
        output = self.shot.output
        if output == "opacity":
            values = mx.broadcast_to(opacity, (len(opacity), 3))
        elif output != "rgb":
            if output == "depth":
                low, high = shades
                values = coloured((high - values) / (high - low), MAPS[self.shot.colour_map])
            else:
                values = 0.5 + 0.5 * values
            if self.shot.background is not None:
                values = values * opacity + (1.0 - opacity) * mx.array(self.shot.background)
        if self.shot.background is None:
            values = mx.concatenate([values, opacity], axis=1)
        return ((mx.clip(values, 0.0, 1.0) * 255.0 + 0.5).astype(mx.uint8),)

    def _mean(self, take: Take) -> _Seen:
        """What the cameras of `take` see in the mean."""
        shot, output = self.shot, self.shot.output
        cameras = spread(take, shot.samples, shot.aperture, self._focus(take[0]))
        if len(cameras) == 1:
            return self._see(cameras[0])
        is_colour = output == "rgb"
        is_straight = is_colour and shot.background is None
        is_weighted = is_straight or output in ("depth", "normal")
        total, opacity = mx.array(0.0), mx.array(0.0)
        for camera in cameras:
            seen = self._see(camera)
            values = seen.values
            if is_colour:
                values = srgb_to_linear(values)
            if is_weighted:
                values = values * seen.opacity.reshape(-1, *[1] * (values.ndim - 1))
            total, opacity = total + values, opacity + seen.opacity
            mx.async_eval(total, opacity)  # so that only one picture more is in memory
        count = float(len(cameras))
        if output == "normal":
            total = total / mx.maximum(mx.linalg.norm(total, axis=1, keepdims=True), 1e-6)
        elif is_weighted:
            total = total / mx.maximum(opacity, 1e-6).reshape(-1, *[1] * (total.ndim - 1))
        else:
            total = total / count
        return _Seen(linear_to_srgb(total) if is_colour else total, opacity / count)

    def _focus(self, camera: Camera) -> float:
        """The distance at which the picture is sharp."""
        if self.shot.focus is not None or not self.shot.aperture:
            return self.shot.focus or 1.0
        ahead = (centre_of(self._run.scene.cameras) - camera.pose[:, 3]) @ -camera.pose[:, 2]
        return max(abs(float(ahead)), 1e-3)

    def _see(self, camera: Camera) -> _Seen:
        shot = self.shot
        with unfused():
            if shot.projection == "equirectangular":
                rays = panorama_rays(camera, self._eye)
            else:
                rays = camera_rays(_beside(camera, self._eye))
        background = shot.background or (0.0, 0.0, 0.0)
        colour, opacity, depth = self._renderer.over(rays, camera.lens.width, background)
        if shot.background is None:
            colour = mx.minimum(colour / mx.maximum(opacity, 1e-6)[:, None], 1.0)
        if shot.output == "rgb":
            return _Seen(exposed(colour, shot.exposure), opacity)
        if shot.output == "normal":
            return _Seen(self._normals(rays, depth), opacity)
        return _Seen(depth if shot.output == "depth" else opacity, opacity)

    def _normals(self, rays: Rays, depth: mx.array) -> mx.array:
        position = rays.origin + depth[:, None] * rays.direction
        cells = self._occupied.geometry.resolution if self._occupied else CELLS
        parameters, found = self._run.state.average, []
        for first in range(0, len(position), POINTS):
            some = position[first : first + POINTS]
            # About half a cell of an occupancy grid, whose cells grow beyond the unit cube.
            reach = mx.maximum(from_centre(some), 0.5) / cells
            found.append(normals(lambda at: self._field.density(parameters, at), some, reach))
            mx.async_eval(found[-1])
        return mx.concatenate(found)

    def shades(self, takes: Sequence[Take]) -> tuple[float, float]:
        """The distances at the ends of the colour map, the same for all frames."""
        if self.shot.output != "depth":
            return 0.0, 1.0
        return self.shot.depth_range or self._estimated(tuple(take[0] for take in takes))

    def _estimated(self, cameras: Sequence[Camera]) -> tuple[float, float]:
        """Nearly the least and the largest distance of what some of `cameras` see."""
        found = []
        for index in np.linspace(0, len(cameras) - 1, min(TRIALS, len(cameras))).astype(int):
            lens = cameras[index].lens
            scale = min(1.0, TRIAL_SIDE / max(lens.width, lens.height))
            size = (max(round(side * scale), 1) for side in (lens.width, lens.height))
            small = Camera(lens.scaled(*size), cameras[index].pose)
            depth, opacity = (np.array(part) for part in self._see(small))
            found.append(depth[opacity > SEEN])
        depths = np.concatenate(found)
        if not len(depths):
            return 0.0, 1.0
        low, high = np.percentile(depths, [1, 99])
        return float(low), float(max(high, low + 1e-3))


class Joined:
    """The frames of one run; of several beside each other, from left to right; or of two eyes."""

    def __init__(self, runs: Sequence[Run], shot: Shot) -> None:
        """Raises `InputError` for runs of different scenes, several in stereo, and as `Frames`."""
        if shot.stereo is not None and len(runs) > 1:
            raise InputError("a film in stereo is of one run; leave the others out")
        for other in runs[1:]:
            if (other.scene.path, other.scene.extent) != (runs[0].scene.path, runs[0].scene.extent):
                raise InputError(
                    f"runs of {runs[0].scene.path} and {other.scene.path} stand side by side; "
                    "expected runs of one scene"
                )
        self._axis = 0 if shot.stereo == "over-under" else 1
        eyes = [0.0] if shot.stereo is None else [-0.5 * shot.eyes, 0.5 * shot.eyes]
        self.frames = [Frames(run, shot, eye) for run in runs for eye in eyes]

    def pictures(
        self, takes: Sequence[Take], numbers: Iterable[int] | None = None
    ) -> Iterator[Pixels]:
        """The pictures of all, joined, as `Frames.pictures` gives them; colour maps end alike."""
        chosen = None if numbers is None else list(numbers)
        lows, highs = zip(*(frames.shades(takes) for frames in self.frames), strict=True)
        shades = min(lows), max(highs)
        each = [frames.pictures(takes, chosen, shades) for frames in self.frames]
        for pictures in zip(*each, strict=True):
            yield np.concatenate(pictures, axis=self._axis)


def _beside(camera: Camera, eye: float) -> Camera:
    """The camera, `eye` scene units further to the right."""
    if not eye:
        return camera
    pose = camera.pose.copy()
    pose[:, 3] += eye * pose[:, 0]
    return Camera(camera.lens, pose)


def _seen_cells(run: Run, occupied: Occupied | None, shot: Shot) -> Occupied:
    if occupied is None:
        raise InputError("crop and near need an occupancy grid; the run's sampler keeps none")
    geometry, bits = occupied
    if shot.crop is not None:
        bits = cropped(bits, geometry, shot.crop, placement_of(run))
    if shot.near is not None:
        geometry = replace(geometry, near=shot.near)
    return Occupied(geometry, bits)


def _ahead(items: Iterable[tuple[OnDevice, Camera]]) -> Iterator[tuple[OnDevice, Camera]]:
    """`items` as they come, but each only when the device has begun to compute the next."""
    waiting: tuple[OnDevice, Camera] | None = None
    coming = iter(items)
    while True:
        with interval("begin a frame"):
            item = next(coming, None)
            if item is not None:
                mx.async_eval(*item[0])
        if item is None:
            break
        if waiting is not None:
            yield waiting
        waiting = item
    if waiting is not None:
        yield waiting
