"""Messages between the pages and the kernel. `handle` applies a message of a page to a `Session`.

A message is a JSON object. Its `kind` selects the handler, and `page` is the name of the page.
Every message can contain `t`, the clock of the page in milliseconds. The image that answers the
message contains the same `t`.

    ready           width, height of the image area in device pixels; warps: whether the page warps
                    images by their depth between two images of the kernel; view: {pose, center,
                    fov} of the page if it was open before. A page may send this message several
                    times
    leave           the page is closed
    size            width, height
    visible         is_visible: whether at least a part of the image area is on screen
    ping            answered by `pong` immediately, even if the worker is busy
    ack             id: number of an image that the page has drawn
    move            pose, center, fov in radians: the view of the page after a move of the user (all
                    or none); moving: whether more moves follow
    went            the same after the message `go`; compared: index of the photo of `go`, if any
    look            x, y: image position in [0, 1]. The scene point at this position becomes the
                    center
    reset           return to the first view
    set             values: new settings, keyed by name
    refine          name: poses, lenses, exposures, or colors; on: whether training refines these
    train, pause
    thumbnails      answered by messages with small copies of all photos
    stand           index: camera to compare with its photo
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
    cancel          cancel the video

The page converts pointer motion to a pose (`page/motion/navigation.js`) so that the page can show
the result immediately. Only the page changes its view. The kernel answers `look`, `reset`, `stand`,
`keyframe`, and `scrub` with `go`, and the page goes there and answers `went`.

The kernel sends `pong`, `state`, `curve`, `video`, and the following messages. A message with
`page` is for this page; other messages are for all pages.

    again           the kernel does not know the page, which must send `ready`
    ranges          ranges of the controls, see `settings.RANGES`
    cameras         cameras of all photos, names of the photos, and sizes of videos
    go              view: {pose, center, up, fov} to move to; compared: training view of the
                    comparison to begin, or null; moving: whether more moves follow
    photo           index, name, width, height, content, and a JPEG image
    thumbnails      first: index of the camera of the first buffer; each buffer is a JPEG image of
                    a photo
    frame           id: number that the page returns in `ack`; t; width, height of the full image;
                    scale: width of this image relative to the full image; still: whether no sharper
                    image follows, because the image has full size or the field is untrained;
                    pose, lens: camera of the image (`page/image/projection.js`); compared: index of
                    the training view with which the image is compared, or null; psnr: PSNR of the
                    image relative to the photo in dB, or null; step: training step;
                    depth: {columns, rows, largest} of the depth grid, or null

A frame has the following buffers: the JPEG image; the codes of the depth grid, if it exists, as
deflated little-endian uint16; and padding.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from nerfmac.app.paths import CameraPath, Keyframe, View
from nerfmac.app.viewer.images import thumbnails
from nerfmac.app.viewer.open_page import Message, OpenPage
from nerfmac.app.viewer.path_editor import free_path
from nerfmac.app.viewer.session import Session
from nerfmac.common import Fields, InputError, user_path

MAX_SKEW = 1e-3
"""Tolerance on the entries of |R^T R - I| for a rotation R from the page. A larger deviation
indicates a bug in the page."""


def handle(session: Session, message: Message) -> None:
    """Apply a message, a JSON object with `kind` and `page`, to a session. If the page is unknown,
    ask it to send `ready`."""
    fields = Fields.of(message, "message")
    kind, name = fields.text("kind"), fields.text("page")
    if kind != "ready" and kind not in HANDLERS:
        raise InputError(f"unknown message {kind!r}; reload the page of the notebook")
    fields = Fields(message, f"message {kind}")
    page = session.pages.get(name)
    if kind == "ready":
        _ready(session, page, fields)
    elif page is not None:
        page.screen.flow.hear()
        HANDLERS[kind](session, page, fields)
    else:
        session.send({"kind": "again", "page": name}, [])


def _ready(session: Session, page: OpenPage | None, message: Fields) -> None:
    if page is None:
        page = session.open(message.text("page"), warps=message.flag("warps", default=False))
        if "view" in message:
            _place(page, message.object("view"))
        page.ask(page.view)
        session.introduce(page)
    _size(session, page, message)


def _size(_session: Session, page: OpenPage, message: Fields) -> None:
    page.screen.resize(message.count("width"), message.count("height"))


def _move(session: Session, page: OpenPage, message: Fields) -> None:
    if "pose" in message:
        _place(page, message)
        session.view = page.view
    page.hold(is_moving=message.flag("moving", default=False))


def _place(page: OpenPage, message: Fields) -> None:
    pose = np.reshape(message.numbers("pose", 12), (3, 4))
    if np.abs(pose[:, :3].T @ pose[:, :3] - np.eye(3)).max() > MAX_SKEW:
        raise message.wrong("pose", "a rotation and a position, row by row")
    compared = message.index("compared") if "compared" in message else None
    page.move(pose, message.numbers("center", 3), message.number("fov"), compared)


def _look(_session: Session, page: OpenPage, message: Fields) -> None:
    x, y = message.number("x"), message.number("y")
    if (shown := page.screen.shown) is not None:
        page.ask(page.view.look_at(shown.point_at(x, y, page.view.distance)))


def _train(session: Session, _page: OpenPage, _message: Fields) -> None:
    if session.training.is_done:
        session.set({"steps": None, "seconds": None})  # The user continues beyond the limit.
    session.start()


def _set(session: Session, page: OpenPage, message: Fields) -> None:
    session.set(dict(message.object("values").values), page)


def _refine(session: Session, _page: OpenPage, message: Fields) -> None:
    session.training.refine(**{message.text("name"): message.flag("on", default=True)})


def _keyframe(session: Session, page: OpenPage, message: Fields) -> None:
    editor, action = session.jobs.path_editor, message.text("action")
    path, here = editor.path, Keyframe(page.view.pose, page.view.fov)
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
        page.ask(_view_at(page, path.keyframes[index]))
    else:
        raise message.wrong("action", "add, remove, replace, go, or time")


def _view_at(page: OpenPage, keyframe: Keyframe) -> View:
    """Return the view of a keyframe, with its center at the distance of the current center."""
    return page.view.stand(keyframe.pose).with_fov(keyframe.fov)


def _scrub(session: Session, page: OpenPage, message: Fields) -> None:
    path, at = session.jobs.path_editor.film, message.number("at")
    page.ask(_view_at(page, path.at(min(max(at, 0.0), 1.0))), moving=True)


def _save(session: Session, _page: OpenPage, message: Fields) -> None:
    session.notice = f"saved {session.jobs.path_editor.save(message.text('name'))}"


def _save_run(session: Session, _page: OpenPage, message: Fields) -> None:
    folder = free_path(user_path(message.text("name")))
    session.training.save(folder)
    session.notice = f"saved the run in {folder}"


def _export(session: Session, page: OpenPage, message: Fields) -> None:
    file, crop = free_path(user_path(message.text("name"))), session.settings.crop
    session.jobs.begin_export(message.text("what"), file, crop, page.display.color)


def _video(session: Session, page: OpenPage, message: Fields) -> None:
    size = message.count("width"), message.count("height")
    shape = message.number("seconds"), message.number("fps"), size
    file = str(free_path(user_path(message.text("name"))))
    session.jobs.begin_video(file, shape, *session.images(page)).start()


HANDLERS: dict[str, Callable[[Session, OpenPage, Fields], object]] = {
    "leave": lambda session, page, _: session.pages.pop(page.name),
    "size": _size,
    "visible": lambda _, page, message: setattr(
        page, "is_visible", message.flag("is_visible", default=True)
    ),
    "ack": lambda _, page, message: page.screen.flow.acknowledge(message.index("id")),
    "move": _move,
    "went": _move,
    "look": _look,
    "reset": lambda session, page, _: page.ask(session.scene.home),
    "set": _set,
    "refine": _refine,
    "train": _train,
    "pause": lambda session, *_: session.training.pause(),
    "thumbnails": lambda session, page, _: setattr(
        page, "photos", enumerate(thumbnails(session.run, page.display.color))
    ),
    "stand": lambda _, page, message: page.compare(message.index("index")),
    "keyframe": _keyframe,
    "clear": lambda session, *_: setattr(session.jobs.path_editor, "path", CameraPath(())),
    "follow": lambda session, _, message: session.jobs.path_editor.follow(message.text("name")),
    "scrub": _scrub,
    "save": _save,
    "save_run": _save_run,
    "export": _export,
    "cancel_export": lambda session, *_: session.jobs.export and session.jobs.export.cancel(),
    "measure": lambda session, *_: session.jobs.measure(),
    "load": lambda session, _, message: session.jobs.path_editor.load(message.text("name")),
    "video": _video,
    "cancel": lambda session, *_: (job := session.jobs.path_editor.video) and job.cancel(),
}
