"""A second connection to a notebook kernel, to probe and watch it without a page.

It speaks Jupyter's protocol over ZeroMQ, because jupyter_client's blocking client would need the
event loop that Playwright uses.
"""

import ast
import json
import re
import threading
import time
from pathlib import Path
from typing import Any

import zmq
from jupyter_client.session import Session

ANSWER = "__import__('json').dumps(({}))"


class KernelError(Exception):
    """A probe raised in the kernel; its traceback is the message."""


class Kernel:
    """The kernel of a notebook, reached by its connection file; `close` it."""

    def __init__(self, connection_file: Path) -> None:
        self._given = json.loads(connection_file.read_text(encoding="utf-8"))
        self._session = Session(
            key=self._given["key"].encode(), signature_scheme=self._given["signature_scheme"]
        )
        self._context = zmq.Context()
        self._shell = self._connect(zmq.DEALER, "shell")
        self._troubles: list[str] = []
        self._said = ""  # on standard error
        self._asked: set[str] = set()  # comms of page requests for the list of widgets
        self._done = ""  # the request of ours that the kernel said last to be through with
        self._stopped = threading.Event()
        self._listener = threading.Thread(target=self._listen, name="iopub", daemon=True)
        self._listener.start()

    @property
    def troubles(self) -> list[str]:
        """Errors in the kernel so far: tracebacks, and text on standard error.

        "No such comm" after a page's request for the widgets is excluded: the kernel rejects the
        request before ipywidgets is imported, or right after a comm is opened.
        """
        harmless = {f"No such comm: {comm}" for comm in self._asked}
        said = [block for block in blocks(self._said) if block not in harmless]
        return [*self._troubles, *(f"standard error: {block}" for block in said)]

    def run(self, code: str, timeout: float = 60.0) -> Any:
        """Run `code` in the kernel; return the value of its last line, sent as JSON, or None.

        Raises KernelError with the traceback, or TimeoutError after `timeout` seconds.
        """
        end = time.monotonic() + timeout
        while (reply := self._execute(code, end))["status"] == "aborted":
            time.sleep(0.05)  # the kernel drops what waits behind a cell that fails
        for said in (reply, reply.get("user_expressions", {}).get("wanted", {})):
            if said.get("status") == "error":
                raise KernelError(plain("\n".join(said["traceback"])))
        if not reply["user_expressions"]:
            return None
        text = reply["user_expressions"]["wanted"]["data"]["text/plain"]
        return json.loads(ast.literal_eval(text))

    def settle(self, timeout: float = 2.0) -> None:
        """Wait at most `timeout` s until all messages are read; a dead kernel is an error."""
        asked = self._session.send(self._shell, "kernel_info_request", {})
        end = time.monotonic() + timeout
        while self._done != asked["header"]["msg_id"]:
            if time.monotonic() > end:
                if not self._is_alive(timeout):
                    self._troubles.append("the kernel is gone: its heart does not beat")
                return
            time.sleep(0.01)

    def close(self) -> None:
        self._stopped.set()
        self._listener.join()
        self._shell.close(linger=0)  # otherwise the context waits for a kernel that has ended
        self._context.term()

    def _connect(self, kind: int, channel: str) -> zmq.Socket:
        found = self._context.socket(kind)
        port = self._given[f"{channel}_port"]
        found.connect(f"{self._given['transport']}://{self._given['ip']}:{port}")
        return found

    def _is_alive(self, timeout: float) -> bool:
        """Whether the kernel responds on its heartbeat channel, a separate thread."""
        with self._connect(zmq.REQ, "hb") as heart:
            heart.setsockopt(zmq.LINGER, 0)
            heart.send(b"beat")
            return bool(heart.poll(int(1000 * timeout)))

    def _execute(self, code: str, end: float) -> dict[str, Any]:
        statements, wanted = split(code)
        content = {"code": statements, "silent": True, "store_history": False, "allow_stdin": False}
        content["user_expressions"] = {"wanted": ANSWER.format(wanted)} if wanted else {}
        asked = self._session.send(self._shell, "execute_request", content)
        while self._shell.poll(max(0, int(1000 * (end - time.monotonic())))):
            _, message = self._session.recv(self._shell)
            if message["parent_header"].get("msg_id") == asked["header"]["msg_id"]:
                return message["content"]
        raise TimeoutError("the kernel did not answer a probe in time")

    def _listen(self) -> None:
        with self._connect(zmq.SUB, "iopub") as published:
            published.setsockopt(zmq.SUBSCRIBE, b"")
            while not self._stopped.is_set():
                if published.poll(50):
                    _, message = self._session.recv(published)
                    self._note(message["msg_type"], message["content"], message["parent_header"])

    def _note(self, kind: str, content: dict[str, Any], parent: dict[str, Any]) -> None:
        is_ours = parent.get("session") == self._session.session
        if kind == "status" and is_ours and content["execution_state"] == "idle":
            self._done = parent["msg_id"]
        is_refusal = kind == "comm_close" and parent.get("msg_type") == "comm_open"
        if is_refusal or (kind == "comm_msg" and content["data"].get("method") == "update_states"):
            self._asked.add(content["comm_id"])
        if kind == "stream" and content["name"] == "stderr":
            self._said += content["text"]
        if kind == "error" and not is_ours:  # of a probe, `run` has raised it
            said = "\n".join(content["traceback"]) or f"{content['ename']}: {content['evalue']}"
            self._troubles.append(plain(said))


def blocks(text: str) -> list[str]:
    """The lines and whole tracebacks on standard error, which the kernel sends in pieces."""
    found: list[str] = []
    for line in filter(str.strip, text.splitlines()):
        last = found[-1] if found else ""
        is_traceback = "Traceback (" in last or last.startswith("Exception in thread")
        is_open = is_traceback and re.search(r"(^ .*|:)\Z", last, re.M)
        if found and (line.startswith(" ") or is_open):
            found[-1] += f"\n{line}"
        else:
            found.append(line)
    return found


def split(code: str) -> tuple[str, str]:
    """Return the statements of `code` and, apart, the expression on its last line, or nothing."""
    body = ast.parse(code).body
    if not body or not isinstance(body[-1], ast.Expr):
        return code, ""
    last = body.pop()
    return "\n".join(ast.unparse(statement) for statement in body), ast.unparse(last)


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)
