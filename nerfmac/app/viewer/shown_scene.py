"""`ShownScene`, the scene of a run as the pages show it: cameras, crop box, and up direction."""

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from nerfmac.app.paths.view import View
from nerfmac.app.run import Run
from nerfmac.app.viewer.images import photos
from nerfmac.app.viewer.live_training import LiveTraining
from nerfmac.app.viewer.screen import relative_lens
from nerfmac.app.viewer.settings import UP
from nerfmac.common import Float64Array, InputError
from nerfmac.config.rendering import EXTRA
from nerfmac.geometry import Bounds, scene_ground_plane

Corners = tuple[Float64Array, Float64Array]

MARGIN = 1.5  # Ratio of the side length of the box to the diameter of the subject.
BELOW = 0.03
"""Distance from the ground plane to the face of the box below it, as a fraction of the box."""

MAX_POINTS = 5000  # Approximate maximum number of sparse points that the ground plane is fitted to.

FRUSTUM_SIZE = 0.06
"""Depth of the frusta of cameras and keyframes, relative to the distance of the cameras from the
scene center (median)."""
FRUSTUM_IN_SUBJECT = 0.3  # Maximum depth of these frusta, relative to the radius of the subject.


class ShownScene:
    """Scene of a run. Only the worker thread may use it."""

    def __init__(self, training: LiveTraining) -> None:
        self._training, self._up = training, training.run.scene.up

    @property
    def home(self) -> View:
        """First view of a page."""
        record = self._training.run.scene
        return View.initial(record.cameras("train"), record.up, record.subject)

    def turn_up(self, name: str, view: View) -> None:
        """Change the up direction of the run: a key of `UP`, `scene` for the original one, or
        `view` for that of a view."""
        x, y, z = view.pose[:, 1].tolist()
        self._training.run.scene = replace(
            self._training.run.scene, up={**UP, "scene": self._up, "view": (x, y, z)}[name]
        )
        self.__dict__.pop("crop_box", None)

    def turned(self, view: View) -> View:
        """Return a view with the up direction of the scene and the same center."""
        return replace(view, up=np.array(self._training.run.scene.up)).look_at(view.center)

    @cached_property
    def crop_box(self) -> Corners | None:
        """Initial crop box in scene coordinates, or None for the whole scene cube."""
        return initial_crop_box(self._training.run)

    @cached_property
    def frustum_size(self) -> float:
        """Depth of the frusta of cameras and keyframes, in scene units."""
        eyes = np.stack([camera.pose[:, 3] for camera in self._training.run.scene.cameras("train")])
        size = FRUSTUM_SIZE * float(np.median(np.linalg.norm(eyes - 0.5, axis=1)))
        subject = self._training.run.scene.subject
        return size if subject is None else min(size, FRUSTUM_IN_SUBJECT * subject.radius)

    @property
    def extra_modes(self) -> list[str]:
        """Modes that show the additional outputs of the field."""
        return [EXTRA + name for name in self._training.run.model.field.extras]

    def status(self) -> dict[str, Any]:
        """Return the properties of the scene as JSON values for a page."""
        record = self._training.run.scene
        return {
            "name": self._training.run.name,
            "extent": record.extent,
            "cube": [corner.tolist() for corner in Bounds(record.extent).corners],
            "subject": self.crop_box and [corner.tolist() for corner in self.crop_box],
            "frustum": self.frustum_size,
            "extra_modes": self.extra_modes,
        }

    def cameras(self) -> dict[str, Any]:
        """Return the cameras of the photos, first those of the training views, and the names of the
        photos as JSON values for a page. If the photos cannot be read, only the training cameras
        are returned."""
        trained = self._training.run.cameras
        try:
            frames = photos(self._training.run)
            names = [frame.name for frame in frames]
        except InputError:
            frames, names = [], [f"view {index}" for index in range(len(trained))]
        cameras = [
            {
                "pose": [float(number) for number in camera.pose.ravel()],
                "lens": relative_lens(camera.lens),
                "aspect": camera.lens.width / camera.lens.height,
                "is_held_out": index >= len(trained),
            }
            for index, camera in enumerate([*trained, *(f.camera for f in frames[len(trained) :])])
        ]
        return {"kind": "cameras", "cameras": cameras, "names": names}


def initial_crop_box(run: Run) -> Corners | None:
    """Return the lowest and highest corners, each (3,), of the initial crop box in scene
    coordinates, or None for the whole scene cube. If the subject stands on a ground plane, the box
    begins a little below this plane."""
    record = run.scene
    if record.subject is None:
        return None
    bounds, (low, high) = Bounds(record.extent), record.subject.box(MARGIN)
    side = float(high[0] - low[0])
    height = _height_above_ground(run)
    if height is not None and 0.0 < height < side:
        axis = int(np.argmax(np.abs(record.up)))  # The face of the box that is nearest to level.
        center, sign = record.subject.center[axis], np.sign(record.up[axis])
        (low if sign > 0 else high)[axis] = center - sign * (height + BELOW * side)
    return np.clip(low, *bounds.corners), np.clip(high, *bounds.corners)


def _height_above_ground(run: Run) -> float | None:
    """Return the height of the center of the subject above the ground plane in scene units, or None
    without a ground plane."""
    try:
        points = run.images().points
    except InputError:  # The files of the scene are gone.
        return None
    if points is None or run.scene.subject is None:
        return None
    eyes = np.stack([camera.pose[:, 3] for camera in run.cameras])
    points = points[:: max(len(points) // MAX_POINTS, 1)]
    plane = scene_ground_plane(points, run.scene.bounds, eyes, run.scene.up)
    if plane is None:
        return None
    slope = float(plane.normal @ np.asarray(run.scene.up))
    return (float(plane.normal @ np.asarray(run.scene.subject.center)) - plane.offset) / slope
