"""`Status`: tells the page the state of its session, a few times a second, and only changes."""

from __future__ import annotations

import time
from math import degrees
from typing import Any

from nerfmac.backend import device_name
from nerfmac.geometry.bounds import Bounds
from nerfmac.viewer.screen.screen import relative
from nerfmac.viewer.session.session import Message, Session

INTERVAL = 0.2
"""Seconds between two messages."""


class Status:
    """Remembers what the page of a session has been told."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._last: Message | None = None
        self._when = 0.0
        self._points = self._generation = 0
        self._device = device_name()  # asked for once: it may have to be read from a file

    def introduce(self) -> None:
        """Tell a page that has just opened everything."""
        self._last, self._points = None, 0
        self._session.send(self._cameras(), [])
        self._when = 0.0
        self.tell()

    def tell(self) -> float | None:
        """Tell what has changed, if it is time for that; else return the seconds until then."""
        now = time.monotonic()
        if now < self._when + INTERVAL:
            return self._when + INTERVAL - now
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
            curve = {"kind": "curve", "fresh": is_fresh, "points": [list(each) for each in points]}
            self._session.send(curve, [])
        self._points, self._generation = len(history.points), history.generation

    def _state(self) -> Message:
        session = self._session
        return {
            "kind": "state",
            "settings": {**vars(session.settings), "fov": degrees(session.view.fov)},
            "training": session.training.status(),
            **session.studio.status(),
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
            "centre": [float(number) for number in session.view.centre],
        }

    def _cameras(self) -> Message:
        session = self._session
        cameras = [
            {
                "pose": [float(number) for number in camera.pose.ravel()],
                "lens": relative(camera.lens),
                "aspect": camera.lens.width / camera.lens.height,
            }
            for camera in session.run.cameras
        ]
        return {"kind": "cameras", "cameras": cameras, "names": session.view_names()}
