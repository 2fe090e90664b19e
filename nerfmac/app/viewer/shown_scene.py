"""`ShownScene`, the scene of a run as the pages show it: cameras, crop box, and up direction."""

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from nerfmac.app.paths.view import View
from nerfmac.app.run import Run
from nerfmac.app.viewer.crop_box import Corners, initial_crop_box
from nerfmac.app.viewer.screen_image import relative_lens
from nerfmac.app.viewer.settings import UP
from nerfmac.common import InputError
from nerfmac.config.rendering import EXTRA
from nerfmac.geometry import Bounds

FRUSTUM_SIZE = 0.06
"""Depth of the frusta of cameras and keyframes, relative to the distance of the cameras from the
scene center (median)."""
FRUSTUM_IN_SUBJECT = 0.3  # Maximum depth of these frusta, relative to the radius of the subject.


class ShownScene:
    """Scene of a run. Only the worker thread may use it."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._up = run.scene.up

    @property
    def home(self) -> View:
        """First view of a page."""
        record = self.run.scene
        return View.initial(record.cameras, record.up, record.subject)

    def turn_up(self, name: str, view: View) -> None:
        """Change the up direction of the run: a key of `UP`, `scene` for the original one, or
        `view` for that of a view."""
        x, y, z = view.pose[:, 1].tolist()
        self.run.scene = replace(
            self.run.scene, up={**UP, "scene": self._up, "view": (x, y, z)}[name]
        )
        self.__dict__.pop("crop_box", None)

    def turned(self, view: View) -> View:
        """Return a view with the up direction of the scene and the same center."""
        return replace(view, up=np.array(self.run.scene.up)).look_at(view.center)

    @cached_property
    def crop_box(self) -> Corners | None:
        """Initial crop box in scene coordinates, or None for the whole scene cube."""
        return initial_crop_box(self.run)

    @cached_property
    def frustum_size(self) -> float:
        """Depth of the frusta of cameras and keyframes, in scene units."""
        eyes = np.stack([camera.pose[:, 3] for camera in self.run.scene.cameras])
        size = FRUSTUM_SIZE * float(np.median(np.linalg.norm(eyes - 0.5, axis=1)))
        subject = self.run.scene.subject
        return size if subject is None else min(size, FRUSTUM_IN_SUBJECT * subject.radius)

    @property
    def extra_modes(self) -> list[str]:
        """Modes that show the additional outputs of the field."""
        return [EXTRA + name for name in self.run.trainer.field.extras]

    def status(self) -> dict[str, Any]:
        """Return the properties of the scene as JSON values for a page."""
        record = self.run.scene
        return {
            "name": self.run.name,
            "extent": record.extent,
            "cube": [corner.tolist() for corner in Bounds(record.extent).corners],
            "subject": self.crop_box and [corner.tolist() for corner in self.crop_box],
            "frustum": self.frustum_size,
            "extra_modes": self.extra_modes,
        }

    def cameras(self) -> dict[str, Any]:
        """Return the training cameras, and the names of their photos if these can be read, as JSON
        values for a page."""
        cameras = [
            {
                "pose": [float(number) for number in camera.pose.ravel()],
                "lens": relative_lens(camera.lens),
                "aspect": camera.lens.width / camera.lens.height,
            }
            for camera in self.run.cameras
        ]
        try:
            names = [frame.name for frame in self.run.images().splits["train"]]
        except InputError:
            names = [f"view {index}" for index in range(len(cameras))]
        return {"kind": "cameras", "cameras": cameras, "names": names}
