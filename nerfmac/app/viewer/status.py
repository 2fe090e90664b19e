"""`Status` sends changes of the session state to the page a few times per second."""

from __future__ import annotations

import time
from math import degrees
from typing import Any

import numpy as np

from nerfmac.app.viewer.screen_image import relative_lens
from nerfmac.app.viewer.session import Message, Session
from nerfmac.backend import device_name
from nerfmac.geometry.bounds import Bounds

INTERVAL = 0.2  # Minimum time in seconds between two state messages while the page is in use.
WATCHED_INTERVAL = 1.0  # The same while the page is visible but not in use.
MARGIN = 1.5  # Ratio of the side length of the initial crop box to the diameter of the subject.
IDLE_INTERVAL = 2.0
"""The same while the page is not visible. The page needs about 17 ms of CPU time to handle a
message, often on the same CPU cores as the training."""


class Status:
    """Sender of state messages to the page. The whole state is sent if any part of it has
    changed."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._last: Message | None = None
        self._when = 0.0
        self._points = self._generation = 0
        self._device = device_name()  # Called once, because it may read a file.

    def introduce(self) -> None:
        """Send the whole state to a page that has just been opened."""
        self._last, self._points = None, 0
        self._session.send(self._cameras(), [])
        self._when = 0.0
        self.tell()

    def tell(self, interval: float = INTERVAL) -> float | None:
        """Send the state and new points of the training curve if they have changed.

        If the last message is less than `interval` seconds old, send nothing and return the
        remaining time in seconds.
        """
        now = time.monotonic()
        if now < self._when + interval:
            return self._when + interval - now
        message = self._state()
        if message != self._last:
            self._when, self._last = now, message
            self._session.send(message, [])
        self._tell_curve()
        return None

    def _tell_curve(self) -> None:
        history = self._session.run.history
        is_fresh = self._points == 0 or history.generation != self._generation
        begin = 0 if is_fresh else self._points
        if points := history.points[begin:]:
            curve = {
                "kind": "curve",
                "fresh": is_fresh,
                "points": [list(point) for point in points],
            }
            self._session.send(curve, [])
        self._points, self._generation = len(history.points), history.generation

    def _state(self) -> Message:
        session = self._session
        return {
            "kind": "state",
            "settings": {**vars(session.settings), "fov": degrees(session.view.fov)},
            "training": {
                **session.training.status(),
                "held_out": session.held_out and session.held_out._asdict(),
            },
            **session.path_editor.status(),
            "scene": self._scene(),
            "notice": session.notice,
        }

    def _scene(self) -> dict[str, Any]:
        session = self._session
        record = session.run.scene
        return {
            "name": session.name,
            "views": len(record.cameras),
            "extent": record.extent,
            "device": self._device,
            "preset": session.run.config.preset,
            "cube": [corner.tolist() for corner in Bounds(record.extent).corners],
            "subject": self._subject(),
            "center": [float(number) for number in session.view.center],
        }

    def _subject(self) -> list[list[float]] | None:
        """Return the lowest and highest corner of the initial crop box in scene coordinates, or
        None for the scene cube."""
        record = self._session.run.scene
        if record.subject is None:
            return None
        low, high = Bounds(record.extent).corners
        return [np.clip(corner, low, high).tolist() for corner in record.subject.box(MARGIN)]

    def _cameras(self) -> Message:
        session = self._session
        cameras = [
            {
                "pose": [float(number) for number in camera.pose.ravel()],
                "lens": relative_lens(camera.lens),
                "aspect": camera.lens.width / camera.lens.height,
            }
            for camera in session.run.cameras
        ]
        return {"kind": "cameras", "cameras": cameras, "names": session.view_names()}
