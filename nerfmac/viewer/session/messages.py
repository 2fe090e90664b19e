"""What each message of the page does to a `Session`.

A message is a JSON object whose `kind` names its function here. Lengths of pointer travel are in
units of the picture's height, x to the right and y down; `t` is the page's clock in milliseconds,
which the frame that answers carries back.

    ready           view: a name for this view of the page, which may say it more than once;
                    width, height of the picture's area in device pixels
    size            width, height
    ack             id: that frame has been drawn
    move            orbit, pan: [x, y]; dolly: logarithm of a factor on the distance;
                    walk: [right, up, forward] in seconds; moving: whether more is to come
    look            x, y in [0, 1] of the picture: what is seen there becomes the centre
    reset           back to the first view
    set             values: settings by name
    train, pause
    stand           index: look from that training camera, beside its photograph
    keyframe        action: add, remove, replace or go; index
    clear           all keyframes
    scrub           at in [0, 1] of the path
    save, load      name: the camera path's file
    video           name, seconds, fps, width, height
    cancel          the video
"""

from __future__ import annotations

from typing import Any

from nerfmac import checks
from nerfmac.checks import InputError
from nerfmac.viewer.screen.jpeg import encoded
from nerfmac.viewer.screen.pick import seen_point
from nerfmac.viewer.screen.screen import QUALITY
from nerfmac.viewer.session.session import Message, Session

PACE = 0.6
"""Of the distance to the centre, that a second of walking covers."""

MOST_TRAVEL = 1e3
"""Of a pointer in one message; more is a fault."""


def handle(session: Session, message: Message) -> None:
    """Do what `message` asks for. Raises `InputError`."""
    kind = message.get("kind")
    if kind not in _HANDLERS:
        raise InputError(f"message {kind!r} is unknown")
    _HANDLERS[kind](session, message)


def _ready(session: Session, message: Message) -> None:
    session.screen.open(message["view"])
    _size(session, message)


def _size(session: Session, message: Message) -> None:
    width, height = message["width"], message["height"]
    for name, value in (("width", width), ("height", height)):
        checks.number(name, value, low=1, high=2**16)
    session.screen.resize(int(width), int(height))


def _ack(session: Session, message: Message) -> None:
    session.screen.answered(int(message["id"]))


def _move(session: Session, message: Message) -> None:
    view = session.view
    if any(orbit := _numbers(message, "orbit", 2)):
        view = view.orbit(*orbit)
    if any(pan := _numbers(message, "pan", 2)):
        view = view.pan(*pan)
    if dolly := _number(message, "dolly"):
        view = view.dolly(dolly)
    right, up, forward = _numbers(message, "walk", 3)
    if right or up or forward:
        view = view.walk(right, up, forward, PACE * view.distance)
    session.move(view, is_moving=bool(message.get("moving")))


def _look(session: Session, message: Message) -> None:
    if session.screen.shown is None:
        return
    x, y = _number(message, "x"), _number(message, "y")
    session.go(session.view.look_at(seen_point(session.screen.shown, x, y, session.view.distance)))


def _reset(session: Session, _message: Message) -> None:
    session.go(session.home)


def _set(session: Session, message: Message) -> None:
    session.set(**message["values"])


def _train(session: Session, _message: Message) -> None:
    if session.training.is_done:
        session.set(steps=None, seconds=None)  # who goes on past a limit wants none
    session.start()


def _pause(session: Session, _message: Message) -> None:
    session.training.pause()


def _stand(session: Session, message: Message) -> None:
    comparison = session.stand(int(message["index"]))
    height, width = comparison.photograph.shape[:2]
    photo = {"kind": "photo", "index": comparison.index, "name": comparison.name}
    size = {"width": width, "height": height}
    session.send({**photo, **size}, [encoded(comparison.photograph, QUALITY[True])])


def _keyframe(session: Session, message: Message) -> None:
    studio, action = session.studio, message.get("action")
    if action == "add":
        studio.add(session.view)
        return
    index = int(message["index"])
    if not 0 <= index < len(studio.path.keyframes):
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
        raise InputError(f"action is {action!r}; expected add, remove, replace or go")


def _clear(session: Session, _message: Message) -> None:
    session.studio.clear()


def _scrub(session: Session, message: Message) -> None:
    studio, at = session.studio, _number(message, "at")
    if studio.path.keyframes:
        keyframe = studio.path.at(min(max(at, 0.0), 1.0))
        session.move(studio.view_at(keyframe, session.view), is_moving=True)


def _save(session: Session, message: Message) -> None:
    session.studio.save(str(message["name"]))
    session.notice = f"saved {message['name']}"


def _load(session: Session, message: Message) -> None:
    session.studio.load(str(message["name"]))


def _video(session: Session, message: Message) -> None:
    size = int(message["width"]), int(message["height"])
    session.film(str(message["name"]), message["seconds"], message["fps"], size).start()


def _cancel(session: Session, _message: Message) -> None:
    if session.studio.film is not None:
        session.studio.film.cancel()


_HANDLERS = {
    "ready": _ready,
    "size": _size,
    "ack": _ack,
    "move": _move,
    "look": _look,
    "reset": _reset,
    "set": _set,
    "train": _train,
    "pause": _pause,
    "stand": _stand,
    "keyframe": _keyframe,
    "clear": _clear,
    "scrub": _scrub,
    "save": _save,
    "load": _load,
    "video": _video,
    "cancel": _cancel,
}


def _number(message: Message, name: str) -> float:
    value: Any = message.get(name, 0.0)
    checks.number(name, value, low=-MOST_TRAVEL, high=MOST_TRAVEL)
    return float(value)


def _numbers(message: Message, name: str, count: int) -> list[float]:
    values: Any = message.get(name, [0.0] * count)
    if not isinstance(values, list) or len(values) != count:
        raise InputError(f"{name} is {values!r}; expected {count} numbers")
    for value in values:
        checks.number(name, value, low=-MOST_TRAVEL, high=MOST_TRAVEL)
    return [float(value) for value in values]
