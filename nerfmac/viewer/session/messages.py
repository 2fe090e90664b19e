"""What each message of the page does to a `Session`.

A message is a JSON object whose `kind` names its function here. Pointer travel is in units of the
picture's height, x to the right and y down. Any message may have `t`, the page's clock in
milliseconds; the frame that answers carries it back.

    ready           view: a name for this view of the page, which may send this more than once;
                    width, height of the picture's area in device pixels
    size            width, height
    ack             id: the number of a frame that the page has drawn
    move            orbit, pan: [x, y]; dolly: logarithm of a factor on the distance;
                    walk: [right, up, forward] in seconds; moving: whether more is to come;
                    each may be left out
    look            x, y in [0, 1] of the picture: what is seen there becomes the centre
    reset           back to the first view
    set             values: settings by name
    refine          name: what training is to correct of its views, before it begins; on: or not
    train, pause
    stand           index: look from that training camera, beside its photograph
    keyframe        action: add, remove, replace or go; index
    clear           all keyframes
    follow          name: of a move around the scene, which becomes the path
    scrub           at in [0, 1] of the path
    save, load      name: the camera path's file
    video           name, seconds, fps, width, height
    cancel          the video
"""

from __future__ import annotations

from collections.abc import Callable

from nerfmac.common import checks
from nerfmac.common.checks import InputError
from nerfmac.common.json_reader import Fields
from nerfmac.viewer.screen.jpeg import encoded
from nerfmac.viewer.screen.pick import seen_point
from nerfmac.viewer.screen.screen import QUALITY
from nerfmac.viewer.session.session import Message, Session

PACE = 0.6
"""Fraction of the distance to the centre that a second of walking covers."""

MOST_TRAVEL = 1e3
"""Largest number that a move may hold; a larger one is a fault of the page."""


def handle(session: Session, message: Message) -> None:
    """Do what `message` asks for. Raises `InputError`."""
    kind = Fields.of(message, "message").text("kind")
    if kind not in _HANDLERS:
        raise InputError(f"message {kind!r} is unknown")
    _HANDLERS[kind](session, Fields(message, f"message {kind}"))


def _ready(session: Session, message: Fields) -> None:
    session.screen.open(message.text("view"))
    _size(session, message)


def _size(session: Session, message: Fields) -> None:
    width, height = message.count("width"), message.count("height")
    for name, value in (("width", width), ("height", height)):
        checks.number(name, value, low=1, high=2**16)
    session.screen.resize(width, height)


def _ack(session: Session, message: Fields) -> None:
    session.screen.answered(message.index("id"))


def _move(session: Session, message: Fields) -> None:
    view = session.view
    if any(orbit := _travel(message, "orbit", 2)):
        view = view.orbit(*orbit)
    if any(pan := _travel(message, "pan", 2)):
        view = view.pan(*pan)
    dolly = message.number("dolly", 0.0)
    checks.number("dolly", dolly, low=-MOST_TRAVEL, high=MOST_TRAVEL)
    if dolly:
        view = view.dolly(dolly)
    right, up, forward = _travel(message, "walk", 3)
    if right or up or forward:
        view = view.walk(right, up, forward, PACE * view.distance)
    session.move(view, is_moving=message.flag("moving", default=False))


def _look(session: Session, message: Fields) -> None:
    if session.screen.shown is None:
        return
    x, y = message.number("x"), message.number("y")
    session.go(session.view.look_at(seen_point(session.screen.shown, x, y, session.view.distance)))


def _reset(session: Session, _message: Fields) -> None:
    session.go(session.home)


def _set(session: Session, message: Fields) -> None:
    session.set(**message.object("values").values)


def _refine(session: Session, message: Fields) -> None:
    session.refine(**{message.text("name"): message.flag("on", default=True)})


def _train(session: Session, _message: Fields) -> None:
    if session.training.is_done:
        session.set(steps=None, seconds=None)  # who goes on past a limit wants none
    session.start()


def _pause(session: Session, _message: Fields) -> None:
    session.training.pause()


def _stand(session: Session, message: Fields) -> None:
    comparison = session.stand(message.index("index"))
    height, width = comparison.photograph.shape[:2]
    photo = {"kind": "photo", "index": comparison.index, "name": comparison.name}
    size = {"width": width, "height": height}
    session.send({**photo, **size}, [encoded(comparison.photograph, QUALITY[True])])


def _keyframe(session: Session, message: Fields) -> None:
    studio, action = session.studio, message.text("action")
    if action == "add":
        studio.add(session.view)
        return
    index = message.index("index")
    if index >= len(studio.path.keyframes):
        raise InputError(
            f"keyframe {index} is not there; the path has {len(studio.path.keyframes)}"
        )
    if action == "remove":
        studio.remove(index)
    elif action == "replace":
        studio.replace(index, session.view)
    elif action == "go":
        session.go(studio.view_at(studio.path.keyframes[index], session.view))
    else:
        raise message.wrong("action", "add, remove, replace or go")


def _clear(session: Session, _message: Fields) -> None:
    session.studio.clear()


def _follow(session: Session, message: Fields) -> None:
    session.studio.follow(message.text("name"))


def _scrub(session: Session, message: Fields) -> None:
    studio, at = session.studio, message.number("at")
    if studio.path.keyframes:
        keyframe = studio.path.at(min(max(at, 0.0), 1.0))
        session.move(studio.view_at(keyframe, session.view), is_moving=True)


def _save(session: Session, message: Fields) -> None:
    name = message.text("name")
    session.studio.save(name)
    session.notice = f"saved {name}"


def _load(session: Session, message: Fields) -> None:
    session.studio.load(message.text("name"))


def _video(session: Session, message: Fields) -> None:
    size = message.count("width"), message.count("height")
    name, seconds, fps = message.text("name"), message.number("seconds"), message.number("fps")
    session.film(name, seconds, fps, size).start()


def _cancel(session: Session, _message: Fields) -> None:
    if session.studio.film is not None:
        session.studio.film.cancel()


def _travel(message: Fields, name: str, count: int) -> tuple[float, ...]:
    """The `count` numbers of `name`; zeros if they are left out."""
    numbers = message.numbers(name, count, (0.0,) * count)
    for number in numbers:
        checks.number(name, number, low=-MOST_TRAVEL, high=MOST_TRAVEL)
    return numbers


_HANDLERS: dict[str, Callable[[Session, Fields], None]] = {
    "ready": _ready,
    "size": _size,
    "ack": _ack,
    "move": _move,
    "look": _look,
    "reset": _reset,
    "set": _set,
    "refine": _refine,
    "train": _train,
    "pause": _pause,
    "stand": _stand,
    "keyframe": _keyframe,
    "clear": _clear,
    "follow": _follow,
    "scrub": _scrub,
    "save": _save,
    "load": _load,
    "video": _video,
    "cancel": _cancel,
}
