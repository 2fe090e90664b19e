"""A view of the page in a browser, with a test in the kernel's place."""

import base64
import copy
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image
from playwright.sync_api import ConsoleMessage, Page

from nerfmac.app.paths import View as Pose
from nerfmac.app.viewer.settings import RANGES

POSE = [0.0, 0.0, 1.0, 5.0, 1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 2.0]
"""A camera at (5, 1, 2) that looks along -x; to its right is +y, above is +z."""

LENS = [0.75, 1.0, 0.45, 0.55]

VIEW = {"pose": POSE, "center": [1.0, 1.0, 2.0], "up": [0.0, 0.0, 1.0], "fov": 0.9}
"""The first view of the page, in the format of the kernel's messages."""

START = Pose(np.reshape(POSE, (3, 4)), np.array(VIEW["center"]), np.array(VIEW["up"]), VIEW["fov"])
"""The same, to be moved as the page should move it."""

STATE: dict[str, Any] = {
    "kind": "state",
    "settings": {
        "mode": "color", "background": "#102030", "resolution": None, "up": "scene",
        "exposure": 0.5, "share": 0.7,
        "rate": 2.0, "rays": 4096, "steps": 900, "seconds": None, "crop": None,
    },
    "training": {
        "can_train": True, "is_running": False, "message": None, "step": 12345, "seconds": 65.2,
        "progress": 0.25, "left": 130.0, "loss": 0.00213, "psnr": 27.26,
        "rays": 2048,
        "refine": {"poses": False, "lenses": False, "exposures": True, "colors": False},
    },
    "keyframes": [], "move": "keyframes", "path": [], "seconds": 5.0, "closed": True,
    "held_out": {"psnr": 25.04, "step": 9000, "views": 3, "of": 9, "word": "good"},
    "measured": None,
    "pace": None, "video": None, "notice": None,
    "export": None, "exported": None,
    "scene": {
        "name": "balls", "extent": 2.0,
        "cube": [[-0.5, -0.5, 0.5], [1.5, 2.5, 3.5]], "subject": None,
        "frustum": 0.1,
        "extra_modes": [],
    },
}  # fmt: skip


def jpeg(colors, width: int = 64, height: int = 48) -> bytes:
    """Return an image of upright stripes of the given colors, all as wide."""
    stripes = np.array(colors, np.uint8)[np.arange(width) * len(colors) // width]
    out = io.BytesIO()
    image = np.broadcast_to(stripes, (height, width, 3))
    Image.fromarray(np.ascontiguousarray(image)).save(out, "JPEG", quality=95, subsampling=0)
    return out.getvalue()


def is_trouble(said: ConsoleMessage) -> bool:
    """Whether a console message is an error, except that WebGL is slow in software."""
    return said.type in ("error", "warning") and "GPU stall due to ReadPixels" not in said.text


UNASKED = ("ack", "went", "ready", "size", "ping", "visible")
"""Kinds of messages that a page sends by itself."""


class View:
    """One view. `sent` are the page's messages so far; `say` answers."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.errors: list[str] = []
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda said: self.errors.append(said.text) if is_trouble(said) else 0)

    def open(
        self, origin: str, width: str = "640px", still: bytes = b"", height: int | None = None
    ) -> "View":
        """Render a view as wide as that, in place of one that may be there."""
        if not self.page.url.startswith(origin):
            self.page.goto(f"{origin}/fake.html")
        self.page.mouse.move(0, 0)
        options = {"width": width, "height": height, "still": base64.b64encode(still).decode()}
        self.run("(options) => start(options)", options)
        return self

    def live(self, **changes: Any) -> "View":
        """Wait until the view has said that it is there, and send it a view and the state."""
        self.wait_for("ready")
        self.go()
        self.say({"kind": "ranges", "ranges": RANGES})
        self.state(**changes)
        return self

    def run(self, script: str, argument: Any = None) -> Any:
        return self.page.evaluate(script, argument)

    def say(self, content: dict[str, Any], *buffers: bytes) -> None:
        encoded = [base64.b64encode(each).decode() for each in buffers]
        self.run("([content, encoded]) => say(content, encoded)", [content, encoded])

    def state(self, **changes: Any) -> None:
        """Send the state; `training={"step": 7}` changes training, `notice="..."` replaces it."""
        state = copy.deepcopy(STATE)
        for name, change in changes.items():
            if isinstance(change, dict) and isinstance(state[name], dict):
                state[name].update(change)
            else:
                state[name] = change
        self.say(state)

    def go(self, **changes: Any) -> None:
        """Ask the page to go to a view."""
        self.say({"kind": "go", "view": VIEW, "moving": False, **changes})

    def frame(self, number: int = 1, colors=((200, 30, 30), (30, 30, 200)), **changes: Any) -> None:
        """Send a frame of 640 x 480; does not wait until it is drawn."""
        content = {
            "kind": "frame", "id": number, "width": 640, "height": 480, "pose": POSE, "lens": LENS,
            "t": None, "still": True, "compared": None, "psnr": None, "scale": 1.0, "step": 12345,
            "depth": None, **changes,
        }  # fmt: skip
        self.say(content, jpeg(colors))

    def drag(
        self, start: Sequence[float], to: Sequence[float], *, button: Any = "left", end: bool = True
    ) -> None:
        """Drag from one place to another, in steps, with a mouse button."""
        mouse = self.page.mouse
        mouse.move(*start)
        mouse.down(button=button)
        mouse.move(*to, steps=4)
        if end:
            mouse.up(button=button)

    def show(self, number: int = 1, *colors: Any, **changes: Any) -> None:
        """Send a frame and wait until it is drawn."""
        self.frame(number, *colors, **changes)
        self.page.wait_for_function(
            "(id) => sent.some((each) => each.kind === 'ack' && each.id === id)", arg=number
        )

    def sent(self, kind: str | None = None) -> list[dict[str, Any]]:
        """Return the page's messages, of one kind or all but acks and sizes."""
        self.settle()
        everything = self.run("sent")
        if kind is not None:
            return [each for each in everything if each["kind"] == kind]
        return [each for each in everything if each["kind"] not in UNASKED]

    def forget(self) -> None:
        self.settle()
        self.run("sent.length = 0")

    def settle(self) -> None:
        """Let two animation frames pass: what waited for the next one has then been done."""
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def wait_for(self, kind: str) -> dict[str, Any]:
        """Return the first message of a kind, when it has come."""
        self.page.wait_for_function("(kind) => sent.some((each) => each.kind === kind)", arg=kind)
        return self.sent(kind)[0]

    def moves(self) -> dict[str, Any]:
        """Return the pose and center of the last move, and `moving` and the number of all moves."""
        moves = self.sent("move")
        places = [each for each in moves if "pose" in each]
        last = {name: places[-1][name] for name in ("pose", "center")} if places else {}
        return {**last, "moving": [each["moving"] for each in moves], "count": len(moves)}

    def has_moved(self, to: Pose, tolerance: float = 1e-9) -> bool:
        """Whether the last move led to that view, and the button or key was then released."""
        moves = self.moves()
        apart = [
            np.abs(np.ravel(want) - moves[name]).max()
            for name, want in (("pose", to.pose), ("center", to.center))
        ]
        return max(apart) <= tolerance and moves["moving"][-1] is False

    def pixel(self, x: int, y: int, layer: str = "frame") -> list[int]:
        """Return red, green, blue and opacity of a canvas at a place in device pixels."""
        return self.run("([layer, x, y]) => pixelOf(layer, x, y)", [layer, x, y])

    def button(self, title: str):
        return self.page.get_by_role("button", name=title, exact=True)

    def control(self, label: str):
        return self.page.get_by_label(label, exact=True)
