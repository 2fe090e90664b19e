"""`serve` shows the viewer on a page of its own, without a notebook.

The page uses the modules of the widget (`page/main.js`) and exchanges the messages of the widget
with this process over a WebSocket. The server also serves the files that the viewer has exported.
Every request must contain a token, as for a Jupyter server, because other programs and web pages
can send requests to this server as well.
"""

import json
import secrets
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from hmac import compare_digest
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tornado.httpserver import HTTPServer
from tornado.ioloop import IOLoop
from tornado.web import Application, HTTPError, RequestHandler, StaticFileHandler
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from nerfmac.app.export import source_of, still_image, with_preview
from nerfmac.app.viewer.open_page import Message, Send
from nerfmac.app.viewer.widget import Viewer
from nerfmac.common import InputError, log

FIRST_PORT, LAST_PORT = 8888, 8987  # Ports that are tried if the user does not choose one.


class ServedViewer(Viewer):
    """Viewer whose messages are sent to a function instead of a notebook."""

    def __init__(self, source: Any, send: Send) -> None:
        self._send_message = send
        super().__init__(source)

    def send(self, content: Any, buffers: Any = None) -> None:
        """Send a message to the page. Any thread may call this method."""
        self._send_message(content, list(buffers or ()))

    def hear(self, message: Message) -> None:
        """Handle a message from the page."""
        self._loop.post(message)

    def exported(self, name: str) -> Path | None:
        """Return the path of the exported file `name`, or None if the viewer exported none."""
        return self._session.jobs.files.get(name)


class Server:
    """Web server for one viewer."""

    def __init__(self, lan: str | None, port: int | None) -> None:
        """Listen on a port or, by default, on the first free port from `FIRST_PORT` on. Raises
        `InputError` if the port is not available. `lan` is the address of this machine in the local
        network, or None to accept only connections from this machine."""
        self.token = secrets.token_urlsafe(24)
        self.viewer: ServedViewer | None = None
        self.pages: set[_Socket] = set()
        self._error: BaseException | None = None
        self._listening, self.port = _listening_socket("0.0.0.0" if lan else "127.0.0.1", port)
        self.files = lan and f"http://{lan}:{self.port}/files/{{name}}?token={self.token}"
        """Address of an exported file in the local network, or None."""
        # Browsers send cookies to all ports of a host.
        self.cookie = f"nerfmac-token-{self.port}"
        self._loop = IOLoop()

    def run(self, begin: Callable[[Send], ServedViewer]) -> None:
        """Create the viewer with `begin(send)` on another thread, and serve the page until the user
        presses Ctrl-C. If `begin` raises an exception, it is raised again."""
        named = {"server": self}
        paths = {r"/files/(.+\.html)": _Exported, r"/stills/(.+\.html)": _Still}
        paths |= {"/": _Page, "/messages": _Socket, "/files/(.+)": _File, "/codes/(.+)": _Code}
        handlers: list[Any] = [(path, handler, named) for path, handler in paths.items()]
        application = Application(handlers, log_function=lambda _handler: None)
        self._loop.asyncio_loop.call_soon(HTTPServer(application).add_socket, self._listening)
        threading.Thread(target=self._begin, args=(begin,), daemon=True).start()
        with suppress(KeyboardInterrupt):
            self._loop.start()
        if self._error is not None:
            raise self._error

    def exported(self, name: str) -> Path:
        """Return the path of the exported file `name`. Raise `HTTPError` if there is none."""
        path = self.viewer and self.viewer.exported(name)
        if path is None or not path.is_file():
            raise HTTPError(404)
        return path

    def _begin(self, begin: Callable[[Send], ServedViewer]) -> None:
        try:
            self.viewer = begin(self.send)
        except BaseException as error:
            self._error = error
            self._loop.add_callback(self._loop.stop)

    def hear(self, message: Message) -> None:
        """Pass a message of a page to the viewer. A page repeats `ready` until the viewer exists
        and answers."""
        if self.viewer is not None:
            self.viewer.hear(message)

    def send(self, content: Message, buffers: list[bytes]) -> None:
        """Send a message to its page or, without `page`, to all pages. Any thread may call this
        method."""
        head = json.dumps({"content": content, "sizes": [len(each) for each in buffers]}).encode()
        frame = b"".join([struct.pack("<I", len(head)), head, *buffers])
        self._loop.add_callback(self._broadcast, frame, content.get("page"))

    def _broadcast(self, frame: bytes, name: str | None) -> None:
        for page in [page for page in self.pages if name in (None, page.name)]:
            with suppress(WebSocketClosedError):  # `on_close` follows.
                page.write_message(frame, binary=True)


def _listening_socket(host: str, port: int | None) -> tuple[socket.socket, int]:
    """Return a socket that listens on a port or, by default, on the first free port."""
    for tried in [port] if port is not None else range(FIRST_PORT, LAST_PORT + 1):
        try:
            listening = socket.create_server((host, tried))
        except OSError as error:
            reason = error.strerror
        else:
            listening.setblocking(False)
            return listening, tried
    raise InputError(f"port {tried} is not available ({reason}); choose another --port")


@cache
def _warn_of_old_page() -> None:
    """Log the first refused request. A page of an earlier server repeats its requests."""
    log.warning("a page without the current address was refused; open the printed address")


class _Guarded(RequestHandler):
    """Handler that requires the token of the server, in the address or as a cookie."""

    def initialize(self, server: Server) -> None:
        self.server = server

    def prepare(self) -> None:
        given = self.get_query_argument("token", self.get_cookie(self.server.cookie, "")) or ""
        if not compare_digest(given.encode(), self.server.token.encode()):
            _warn_of_old_page()
            raise HTTPError(403)

    def write_error(self, status_code: int, **_named: Any) -> None:
        refused = source_of("viewer/page/alone/refused.html")
        self.finish(refused if status_code == 403 else str(status_code))


class _Page(_Guarded):
    def get(self) -> None:
        parts = {
            "{title}": "nerfmac",
            "{viewer}": json.dumps([str(Viewer._esm), self.server.files]).replace("<", "\\u003c"),
            "{style}": str(Viewer._css),
            "{script}": source_of("viewer/page/alone/alone.js"),
        }
        text = source_of("viewer/page/alone/alone.html")
        for name, part in parts.items():
            text = text.replace(name, part)
        self.set_cookie(self.server.cookie, self.server.token, httponly=True, samesite="Strict")
        self.set_header("Cache-Control", "no-store")
        self.finish(text)


class _File(_Guarded, StaticFileHandler):
    """File that the viewer has exported, by its name."""

    def initialize(self, server: Server) -> None:  # type: ignore[override]
        self.server, self.root, self.default_filename = server, "", None

    def validate_absolute_path(self, root: str, absolute_path: str) -> str | None:
        return super().validate_absolute_path("/", str(self.server.exported(self.path)))

    def set_extra_headers(self, path: str) -> None:
        self.set_header("Cache-Control", "no-store")


class _Exported(_Guarded):
    """Page that the viewer has exported. If its address contains the token, as for the crawler of a
    chat, the page has the tags of a preview. A download with the cookie is the unchanged file."""

    def get(self, name: str) -> None:
        page = self.server.exported(name).read_text("utf-8")
        if self.get_query_argument("token", ""):
            page = with_preview(page, self.request.full_url().replace("/files/", "/stills/", 1))
        self.set_header("Cache-Control", "no-store")
        self.finish(page)

    head = get


class _Still(_Guarded):
    """Still image of an exported page, for previews of the page in chats."""

    def get(self, name: str) -> None:
        self.set_header("Content-Type", "image/jpeg")
        self.finish(still_image(self.server.exported(name).read_text("utf-8")))


class _Code(_Guarded):
    """QR code of the address of an exported file in the local network, as a data URI."""

    def get(self, name: str) -> None:
        import segno

        if self.server.files is None:
            raise HTTPError(404)
        address = self.server.files.format(name=quote(name))
        self.finish(segno.make(address).svg_data_uri(scale=4, light="white"))


class _Socket(_Guarded, WebSocketHandler):
    name: str | None = None  # Name of the page in its messages.

    def open(self, *_arguments: str, **_named: str) -> None:
        self.set_nodelay(True)
        self.server.pages.add(self)

    def on_message(self, message: str | bytes) -> None:
        content = json.loads(message)
        self.name = content.get("page")
        self.server.hear(content)

    def on_close(self) -> None:
        self.server.pages.discard(self)
        if self.name is not None:
            self.server.hear({"kind": "leave", "page": self.name})
