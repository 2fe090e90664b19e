"""`OpenPage`, one open page of a viewer: a page in a browser or a view of the notebook widget.

The page owns its view: only messages from the page move its camera. To show a training view, for
example, the kernel sends a request (`ask`), and the page answers with a message that moves the
camera.
"""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from nerfmac.app.export import encode_jpeg
from nerfmac.app.paths.view import View
from nerfmac.app.viewer.images import PhotoComparison
from nerfmac.app.viewer.pace import Kind
from nerfmac.app.viewer.screen import JPEG_QUALITY, Screen, ScreenImage, Target
from nerfmac.app.viewer.settings import Display, hex_color
from nerfmac.common import UInt8Array
from nerfmac.config.rendering import Box

Message = dict[str, Any]
Send = Callable[[Message, list[bytes]], None]

HELD_STILL = 0.5  # Maximum time in seconds between two moves of a moving camera.
TOUCH = 10.0  # Time in seconds after a user action during which the page counts as in use.
PHOTOS = 8  # Number of thumbnails in a message.
THUMBNAIL_QUALITY = 75  # JPEG quality.
INTERVAL = 0.2
"""Minimum time in seconds between two state messages, while the page is in use or nothing is to be
done."""
WATCHED_INTERVAL = {True: 1.0, False: 2.0}
"""The same while the camera moves, or during work while the page is not in use, if its image is
visible (True) or not. The page needs about 17 ms of CPU time for a message, often on the same CPU
cores as the training, and cannot move the image in this time."""


class OpenPage:
    """View, content, and image area of a page. Only the worker thread may use it."""

    def __init__(self, name: str, screen: Screen, view: View, display: Display, send: Send) -> None:
        self.name, self.screen, self._training, self._send = name, screen, screen.training, send
        self.view, self.display = view, display
        self.crop: Box | None = None
        self.is_visible = True
        self.comparison: PhotoComparison | None = None
        self.asked: float | None = None  # `t` of the latest message that no image has answered.
        self.touched = self.moving_until = -math.inf
        """Values of `time.monotonic()`: the last user action, and the time until which the camera
        counts as moving."""
        self.undrawable: Target | None = None  # Last content that could not be drawn.
        self.photos: Iterator[tuple[int, UInt8Array]] | None = None
        """Numbers and thumbnails of the photos that the page waits for."""
        self._offered: PhotoComparison | None = None  # The page has its photo.
        self._target: Target | None = None
        self._told: Message | None = None  # Last state message.
        self._told_at = 0.0  # Value of `time.monotonic()` when it was sent.
        self._points = self._generation = 0  # Points of the training curve that the page has.
        self._backdrop = hex_color(self._training.run.scene.backdrop)

    def send(self, message: Message, buffers: list[bytes] | None = None) -> None:
        """Send a message to this page."""
        self._send({**message, "page": self.name}, buffers or [])

    def ask(self, view: View, *, compared: int | None = None, moving: bool = False) -> None:
        """Ask the page to move to a view, and to begin the comparison `compared`. `moving` is
        whether more moves follow."""
        more = {} if compared is None else {"compared": compared}
        self.send({"kind": "go", "view": view.to_json(), "moving": moving, **more})

    def move(
        self, pose: npt.ArrayLike, center: npt.ArrayLike, fov: float, compared: int | None
    ) -> None:
        """Move the view. A move without `compared` ends a photo comparison."""
        up = np.array(self._training.run.scene.up)
        view = View(np.asarray(pose), np.asarray(center), up, fov)
        offered = self._offered
        comparison = offered if offered and offered.index == compared else None
        if comparison is not self.comparison or view.to_json() != self.view.to_json():
            self.view, self.comparison, self._target = view, comparison, None

    def hold(self, *, is_moving: bool) -> None:
        """Record whether the camera moves. It counts as moving for at most `HELD_STILL` seconds."""
        self.moving_until = time.monotonic() + HELD_STILL if is_moving else -math.inf

    @property
    def held(self) -> float:
        """Time in seconds for which the camera still counts as moving."""
        return max(self.moving_until - time.monotonic(), 0.0)

    @property
    def is_touched(self) -> bool:
        """Whether the page is in use."""
        return time.monotonic() <= self.touched + TOUCH

    def show(self, display: Display, crop: Box | None) -> None:
        """Change what the page displays."""
        modes = {self.display.mode, display.mode}
        self.display, self.crop, self._target = display, crop, None
        if self.comparison is not None and len(modes) == 2 and "depth" in modes:
            self.compare(self.comparison.index)  # The depth replaces the photo, or vice versa.

    def compare(self, index: int) -> None:
        """Ask the page to move to training view `index` and to compare the image with the photo. In
        the mode `depth`, the depth that a sensor has measured replaces the photo."""
        comparison = PhotoComparison.of(self._training.run, index, self.display.color)
        view = self.view.stand(comparison.camera.pose)
        if self.display.mode == "depth":
            shown = self.display.options(self.crop), view.distance
            comparison = comparison.with_measured_depth(self._training.run, *shown)
        self._offered = comparison
        height, width = comparison.photo.shape[:2]
        photo = {"kind": "photo", "index": index, "name": comparison.name}
        shape = {"width": width, "height": height, "content": comparison.content}
        self.send({**photo, **shape}, [encode_jpeg(comparison.photo, JPEG_QUALITY[True])])
        self.ask(view, compared=index)

    def target(self) -> Target:
        """Return the content that the page should show: the same object until it changes."""
        # Decoding the images may change the mean color and therefore the backdrop.
        if (backdrop := hex_color(self._training.run.scene.backdrop)) != self._backdrop:
            if self.display.background == self._backdrop:
                self.show(replace(self.display, background=backdrop), self.crop)
            self._backdrop = backdrop
        if self._target is None:
            camera = self.comparison.camera if self.comparison else None
            options, subject = self.display.options(self.crop), self._training.run.scene.subject
            resolution = self.display.resolution
            self._target = Target(self.view, options, camera, subject, resolution)
        return self._target

    def wanted(self) -> Kind | None:
        """Return why the page wants an image now, or None."""
        target = self.target()
        return None if target is self.undrawable else self.screen.kind(target, moving=self.held > 0)

    def draw(self, kind: Kind) -> ScreenImage | None:
        """Draw a strip of the next image. If it was the last one, send and return the image."""
        if (image := self.screen.draw(self.target(), kind)) is None:
            return None
        comparison, is_measured = self.comparison, image.is_full and self.display.mode == "color"
        answer = {
            "id": self.screen.flow.send(),
            "t": self.asked,
            "compared": comparison.index if comparison else None,
            "psnr": comparison.psnr(image.drawn.rgb) if comparison and is_measured else None,
        }
        self.asked = None
        self.send({**image.message, **answer}, image.buffers)
        return image

    def tell(self, state: Callable[[], Message], *, is_busy: bool) -> float:
        """Send the state and new points of the training curve if they have changed. If the last
        message is too recent, send nothing. Return the time in seconds until the next call."""
        now = time.monotonic()
        is_watched = self.held > 0.0 or (is_busy and not self.is_touched)
        due = self._told_at + (WATCHED_INTERVAL[self.is_visible] if is_watched else INTERVAL)
        if now < due:
            return due - now
        if (message := state()) != self._told:
            self._told_at, self._told = now, message
            self.send(message)
        self._tell_curve()
        return math.inf

    def _tell_curve(self) -> None:
        history = self._training.run.history
        is_fresh = self._points == 0 or history.generation != self._generation
        begin = 0 if is_fresh else self._points
        if points := history.points[begin:]:
            shown = [list(point) for point in points]
            self.send({"kind": "curve", "fresh": is_fresh, "points": shown})
        self._points, self._generation = len(history.points), history.generation

    def send_photos(self) -> None:
        """Send the next thumbnails to the page."""
        photos, self.photos = self.photos, None  # An error ends the sending.
        if photos is not None and (batch := list(islice(photos, PHOTOS))):
            message = {"kind": "thumbnails", "first": batch[0][0]}
            self.send(message, [encode_jpeg(photo, THUMBNAIL_QUALITY) for _, photo in batch])
            self.photos = photos
