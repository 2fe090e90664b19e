"""A separate JupyterLab server with a free port and all Jupyter files in one folder."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[4]
PATIENCE = 60.0  # seconds that a server may take to answer
ENDING = 15.0  # and to end: at times it never does, if a page closes in the middle of a message
LAB = [
    "--no-browser",
    "--allow-root",
    "--ServerApp.ip=127.0.0.1",
    "--ServerApp.port_retries=0",
    "--IdentityProvider.token=",
    "--ServerApp.password=",
    "--ServerApp.disable_check_xsrf=True",
    "--LabApp.expose_app_in_browser=True",
    "--LabApp.news_url=None",
    "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
]
SETTINGS = {  # the news would cover the page; a save that no test asked for would race with it
    "apputils-extension/notification": {
        "fetchNews": "false",
        "checkForUpdates": False,
        "doNotDisturbMode": True,
    },
    "docmanager-extension/plugin": {"autosave": False},
}


def jupyter_environment(folder: Path) -> dict[str, str]:
    """The environment with all that Jupyter reads and writes in `folder`, and our interpreter."""
    kernel = folder / "share" / "kernels" / "python3" / "kernel.json"
    kernel.parent.mkdir(parents=True, exist_ok=True)
    start = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = {"argv": start, "display_name": "Python 3", "language": "python"}
    kernel.write_text(json.dumps(spec), encoding="utf-8")
    held = {
        "JUPYTER_PATH": "share",
        "JUPYTER_DATA_DIR": "share",
        "JUPYTER_CONFIG_DIR": "config",
        "JUPYTER_RUNTIME_DIR": "runtime",
        "JUPYTERLAB_SETTINGS_DIR": "settings",
        "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
        "IPYTHONDIR": "ipython",
    }
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        **{name: str(folder / inner) for name, inner in held.items()},
        "JUPYTER_PLATFORM_DIRS": "1",  # without it jupyter_core warns
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",  # without it the debugger prints a note, at times
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
    }


class Lab:
    """A running JupyterLab in an empty `folder`, with `notebooks` and its `log`; `stop` it."""

    def __init__(self, folder: Path) -> None:
        self.notebooks = folder / "notebooks"
        self.notebooks.mkdir()
        self._runtime = folder / "runtime"
        self._write_settings(folder / "settings")
        self._log = folder / "log"
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        where = [f"--ServerApp.port={port}", f"--ServerApp.root_dir={self.notebooks}"]
        with self._log.open("wb") as log:
            self._server = subprocess.Popen(
                [sys.executable, "-m", "jupyterlab", *LAB, *where],
                cwd=folder,
                env=jupyter_environment(folder),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        try:
            wait_for_answer(self._server, self.url, self._log)
        except BaseException:
            self.stop()
            raise

    def __enter__(self) -> "Lab":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def said(self) -> str:
        """The output of the server, and of the kernels on standard error."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    def ask(self, what: str, method: str = "GET", content: Any = None) -> Any:
        """Return the answer of the server's REST interface, such as of `kernels`."""
        data = None if content is None else json.dumps(content).encode()
        request = urllib.request.Request(f"{self.url}/api/{what}", data, method=method)
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            said = answer.read()
        return json.loads(said) if said else None

    def start_kernel(self, notebook: str) -> Path:
        """Start the kernel of a notebook, so that a page finds it; return its connection file."""
        content = {"path": notebook, "name": notebook, "type": "notebook"}
        session = self.ask("sessions", "POST", {**content, "kernel": {"name": "python3"}})
        return self._runtime / f"kernel-{session['kernel']['id']}.json"

    def stop_kernels(self) -> None:
        for kernel in self.ask("kernels"):
            self.ask(f"kernels/{kernel['id']}", method="DELETE")

    def stop(self) -> None:
        end_server(self._server)

    def _write_settings(self, folder: Path) -> None:
        for name, values in SETTINGS.items():
            path = folder / "@jupyterlab" / f"{name}.jupyterlab-settings"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(values), encoding="utf-8")


def wait_for_answer(server: subprocess.Popen[bytes], url: str, log: Path) -> None:
    """Wait until a JupyterLab server answers; an error has what it has written to `log`."""
    end = time.monotonic() + PATIENCE
    while server.poll() is None and time.monotonic() < end:
        try:
            urllib.request.urlopen(f"{url}/api/status", timeout=PATIENCE).close()
            return
        except OSError:
            time.sleep(0.1)
    text = log.read_text(encoding="utf-8", errors="replace")
    raise RuntimeError(f"JupyterLab ended, or did not answer in {PATIENCE:.0f} s:\n{text}")


def end_server(server: subprocess.Popen[bytes]) -> None:
    """End a JupyterLab server and its kernels, in any state."""
    if server.poll() is not None:
        return
    server.terminate()  # it ends its kernels before itself
    try:
        server.wait(ENDING)
    except subprocess.TimeoutExpired:
        server.kill()  # a kernel ends by itself when its parent is gone
        server.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
