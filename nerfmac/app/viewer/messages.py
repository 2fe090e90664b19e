"""Messages between the page and the kernel. `handle` applies a message to a `Session`.

A message is a JSON object. Its `kind` selects the handler. Every message can contain `t`, the clock
of the page in milliseconds. The image that answers the message contains the same `t`.

    ready           page: name of this page, which may send this message several times;
                    width, height of the image area in device pixels; warps: whether the page
                    warps images by their depth between two images of the kernel
    size            width, height
    visible         page; is_visible: whether at least a part of the image area is on screen
    ping            answered by `pong` immediately, even if the worker is busy
    ack             id: number of an image that the page has drawn
    move            pose, center of the view on the page (either both or neither); page: name of the
                    page; version: version of the kernel's view that the page has moved;
                    moving: whether more moves follow
    look            x, y: image position in [0, 1]. The scene point at this position becomes the
                    center
    reset           return to the first view
    set             values: new settings, keyed by name
    refine          name: poses, lenses, exposures, or colors; on: whether training refines these
    train, pause
    thumbnails      answered by messages with small copies of all training photos
    stand           index: training view to compare with its photo, from the same camera
    keyframe        action: add, remove, replace, go, or time; index; seconds since the previous
                    keyframe, or null, for the action time
    clear           remove all keyframes
    follow          name of a move around the scene to follow, or "keyframes"
    scrub           at: position on the followed path, from 0 (start) to 1 (end)
    save, load      name: file of the camera path
    save_run        name: folder for the run
    export          what: page, mesh, points, or cameras; name: file to write
    cancel_export   cancel the export
    measure         measure PSNR on held-out views; training waits for the result
    video           name, seconds, fps, width, height of the video. If a file with the name of this
                    message, or of one of the messages save, save_run, and export, exists, a number
                    is appended to the name
    estimate        measure the rendering time of the video
    cancel          cancel the video

The page converts pointer motion to a pose (`page/motion/navigation.js`) so that the page can show
the result immediately. If the kernel changes the view, for example after `reset` or an assignment
to `Viewer.view`, the kernel increments the version of its view and ignores moves with an older
`version`.

The kernel sends `pong`, `state`, `curve`, `cameras` (`status`), `photo`, `video`, images, and:

    errors          psnr: training PSNR of each training view in dB, or null if it is unknown
    thumbnails      first: index of the training view of the first buffer; each buffer is a JPEG
                    image of a training photo

    frame           id: number that the page returns in `ack`; t; width, height of the full image;
                    scale: width of this image relative to the full image; still: whether no sharper
                    image follows, because the image has full size or the field is untrained;
                    pose, lens: camera of the image (`page/image/projection.js`);
                    view: {pose, center, up, fov in radians}; version; mover: name of the page that
                    moved the view, or null; compared: index of the training view with which the
                    image is compared, or null; psnr: PSNR of the image relative to the photo in dB,
                    or null; step: training step;
                    depth: {columns, rows, largest} of the depth grid, or null

A frame has the following buffers: the JPEG image; the codes of the depth grid, if it exists, as
deflated little-endian uint16; and padding.
"""

import math
import time
from collections.abc import Callable
from dataclasses import replace
from math import degrees
from typing import Any

import numpy as np

from nerfmac.app.paths import CameraPath, Keyframe
from nerfmac.app.paths.view import View
from nerfmac.app.viewer.path_editor import free_path
from nerfmac.app.viewer.screen_image import JPEG_QUALITY, encode_jpeg, relative_lens
from nerfmac.app.viewer.session import Message, Session
from nerfmac.app.viewer.thumbnails import thumbnails
from nerfmac.backend import device_name
from nerfmac.common import Fields, InputError, checks, user_path
from nerfmac.geometry import Bounds

MAX_SKEW = 1e-3
"""Tolerance on the entries of |R^T R - I| for a rotation R from the page. A larger deviation
indicates a bug in the page."""


def handle(session: Session, message: Message) -> None:
    """Apply a message, a JSON object with `kind`, to a session."""
    kind = Fields.of(message, "message").text("kind")
    if kind not in HANDLERS:
        raise InputError(f"unknown message {kind!r}; reload the page of the notebook")
    HANDLERS[kind](session, Fields(message, f"message {kind}"))


def _ready(session: Session, message: Fields) -> None:
    session.screen.open(message.text("page"), warps=message.flag("warps", default=False))
    _size(session, message)


def _size(session: Session, message: Fields) -> None:
    width, height = message.count("width"), message.count("height")
    for name, value in (("width", width), ("height", height)):
        checks.number(name, value, low=1, high=2**16)
    session.screen.resize(width, height)


def _move(session: Session, message: Fields) -> None:
    is_moving = message.flag("moving", default=False)
    if "pose" in message and message.index("version") == session.version:
        pose = np.reshape(message.numbers("pose", 12), (3, 4))
        if np.abs(pose[:, :3].T @ pose[:, :3] - np.eye(3)).max() > MAX_SKEW:
            raise message.wrong("pose", "a rotation and a position, row by row")
        center = np.array(message.numbers("center", 3))
        session.go(replace(session.view, pose=pose, center=center), message.text("page"))
    session.hold(is_moving=is_moving)


def _look(session: Session, message: Fields) -> None:
    x, y = message.number("x"), message.number("y")
    if (shown := session.screen.shown) is not None:
        session.go(session.view.look_at(shown.point_at(x, y, session.view.distance)))


def _train(session: Session, _message: Fields) -> None:
    if session.training.is_done:
        session.set(steps=None, seconds=None)  # The user continues beyond the limit.
    session.start()


def _set(session: Session, message: Fields) -> None:
    mode = session.settings.mode
    session.set(**message.object("values").values)
    modes = {mode, session.settings.mode}
    if session.comparison is not None and len(modes) == 2 and "depth" in modes:
        _compare(session, session.comparison.index)  # The depth replaces the photo, or vice versa.


def _stand(session: Session, message: Fields) -> None:
    _compare(session, message.index("index"))


def _compare(session: Session, index: int) -> None:
    comparison = session.compare(index)
    height, width = comparison.photo.shape[:2]
    photo = {"kind": "photo", "index": comparison.index, "name": comparison.name}
    shown = {"width": width, "height": height, "content": comparison.content}
    session.send({**photo, **shown}, [encode_jpeg(comparison.photo, JPEG_QUALITY[True])])


def _thumbnails(session: Session, _message: Fields) -> None:
    session.photos = enumerate(thumbnails(session.run, session.settings.rgb_background))


def _keyframe(session: Session, message: Fields) -> None:
    editor, action = session.path_editor, message.text("action")
    path, here = editor.path, Keyframe(session.view.pose, session.view.fov)
    if action == "add":
        editor.path = path.added(here)
        return
    index = message.index("index")
    if index >= len(path.keyframes):
        raise InputError(
            f"keyframe {index} does not exist; the path has {len(path.keyframes)} keyframes"
        )
    if action == "remove":
        editor.path = path.removed(index)
    elif action == "replace":
        seconds = path.keyframes[index].seconds
        editor.path = path.replaced(index, replace(here, seconds=seconds))
    elif action == "time":
        seconds = None if message.is_null("seconds") else message.number("seconds")
        editor.path = path.replaced(index, replace(path.keyframes[index], seconds=seconds))
    elif action == "go":
        session.go(_view_at(session, path.keyframes[index]))
    else:
        raise message.wrong("action", "add, remove, replace, go, or time")


def _view_at(session: Session, keyframe: Keyframe) -> View:
    """Return the view of a keyframe, with its center at the distance of the current center."""
    return session.view.stand(keyframe.pose).with_fov(keyframe.fov)


def _scrub(session: Session, message: Fields) -> None:
    path, at = session.path_editor.film, message.number("at")
    session.go(_view_at(session, path.at(min(max(at, 0.0), 1.0))))
    session.hold(is_moving=True)


def _save(session: Session, message: Fields) -> None:
    session.notice = f"saved {session.path_editor.save(message.text('name'))}"


def _save_run(session: Session, message: Fields) -> None:
    folder = free_path(user_path(message.text("name")))
    session.save(folder)
    session.notice = f"saved the run in {folder}"


def _export(session: Session, message: Fields) -> None:
    session.begin_export(message.text("what"), free_path(user_path(message.text("name"))))


def _cancel_export(session: Session, _message: Fields) -> None:
    if session.export is not None:
        session.export.cancel()


def _video(session: Session, message: Fields) -> None:
    size = message.count("width"), message.count("height")
    name, seconds, fps = message.text("name"), message.number("seconds"), message.number("fps")
    session.begin_video(str(free_path(user_path(name))), seconds, fps, size).start()


def _cancel(session: Session, _message: Fields) -> None:
    if session.path_editor.video is not None:
        session.path_editor.video.cancel()


HANDLERS: dict[str, Callable[[Session, Fields], None]] = {
    "ready": _ready,
    "size": _size,
    "visible": lambda session, message: session.screen.see(
        message.text("page"), is_visible=message.flag("is_visible", default=True)
    ),
    "ack": lambda session, message: session.screen.acknowledge(message.index("id")),
    "move": _move,
    "look": _look,
    "reset": lambda session, _: session.go(session.home),
    "set": _set,
    "refine": lambda session, message: session.refine(
        **{message.text("name"): message.flag("on", default=True)}
    ),
    "train": _train,
    "pause": lambda session, _: session.pause(),
    "thumbnails": _thumbnails,
    "stand": _stand,
    "keyframe": _keyframe,
    "clear": lambda session, _: setattr(session.path_editor, "path", CameraPath(())),
    "follow": lambda session, message: session.path_editor.follow(message.text("name")),
    "scrub": _scrub,
    "save": _save,
    "save_run": _save_run,
    "export": _export,
    "cancel_export": _cancel_export,
    "measure": lambda session, _: session.measure(),
    "load": lambda session, message: session.path_editor.load(message.text("name")),
    "estimate": lambda session, _: session.estimate(),
    "video": _video,
    "cancel": _cancel,
}


INTERVAL = 0.2  # Minimum time in seconds between two state messages while the page is in use.
WATCHED_INTERVAL = 1.0  # The same while the page is visible but not in use.
ERRORS_INTERVAL = 2.0  # Minimum time in seconds between two messages with errors of views.
IDLE_INTERVAL = 2.0
"""The same while the page is not visible. The page needs about 17 ms of CPU time to handle a
message, often on the same CPU cores as the training."""


class Status:
    """Sender of state messages to the page. If any part has changed, the whole state is sent."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._last: Message | None = None
        self._when = 0.0
        self._points = self._generation = 0
        self._errors: list[float | None] = []
        self._told_errors = -math.inf  # time.monotonic() of the last message with errors.
        self._device = device_name()  # Called once, because it may read a file.

    def introduce(self) -> None:
        """Send the whole state to a page that has just been opened."""
        self._last, self._points = None, 0
        self._errors, self._told_errors = [], -math.inf
        self._session.send(self._cameras(), [])
        self._when = 0.0
        self.tell()

    def tell(self, interval: float = INTERVAL) -> float | None:
        """Send the state and new points of the training curve if they have changed. If the last
        message is less than `interval` seconds old, send nothing and return the remaining time in
        seconds."""
        now = time.monotonic()
        if now < self._when + interval:
            return self._when + interval - now
        message = self._state()
        if message != self._last:
            self._when, self._last = now, message
            self._session.send(message, [])
        self._tell_curve()
        self._tell_errors(now)
        return None

    def _tell_errors(self, now: float) -> None:
        if now < self._told_errors + ERRORS_INTERVAL:
            return
        errors = self._session.training.errors.psnr
        if errors != self._errors and any(psnr is not None for psnr in errors):
            self._errors, self._told_errors = errors, now
            self._session.send({"kind": "errors", "psnr": errors}, [])

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
                "measured": session.measured,
            },
            **session.path_editor.status(),
            "pace": session.pace,
            "scene": self._scene(),
            "export": session.export and session.export.status(),
            "exported": session.exported,
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
            "subject": session.crop_box and [corner.tolist() for corner in session.crop_box],
            "center": [float(number) for number in session.view.center],
            "frustum": session.frustum_size,
            "extra_modes": session.extra_modes,
        }

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
        names, sizes = session.view_names(), session.path_editor.sizes
        return {"kind": "cameras", "cameras": cameras, "names": names, "sizes": sizes}
