"""`nerfmac view`: open a run or a scene in the viewer, on a page of its own or, with `--lab`, in a
JupyterLab notebook. nerfmac writes the notebook only once, because users may change it."""

import json
import os
import re
import socket
import subprocess
import sys
import webbrowser
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import quote

from nerfmac.app.capture import captured
from nerfmac.app.cli.options import View
from nerfmac.app.run import is_run, read_scene
from nerfmac.app.scenes import Scene, builtin_scene_path, holds_scene, load_scene
from nerfmac.app.snapshots import is_snapshot, read_container
from nerfmac.app.viewer import INSTALL
from nerfmac.common import InputError, read_json, write_json

NEEDED = ("jupyterlab", "anywidget", "tornado", "segno")  # Packages from the extra `notebook`.
SECONDS = 60  # Training time in seconds that starts when a scene is opened.
ALLOW_ROOT = "--allow-root"  # JupyterLab requires it as root, for example in a container.
SETTINGS = Path(__file__).parent / "jupyter"  # JupyterLab's settings, and the notebook.
TRAIN = f"viewer.train(seconds={SECONDS})  # the same as the Start button\n"
BUILTIN = "nerfmac.builtin_scene_path()"


def main(arguments: View, passed: Sequence[str] = ()) -> int:
    """Show the viewer until the user presses Ctrl-C, or replace this process with JupyterLab.
    `passed` are the arguments for JupyterLab."""
    if missing := " and ".join(name for name in NEEDED if find_spec(name) is None):
        raise InputError(
            f"{missing} not installed; the viewer requires the extra notebook: {INSTALL}"
        )
    path, given = arguments.path, arguments.given()
    is_trained = path is not None and (is_run(path) or is_snapshot(path))
    if is_trained:
        arguments.refuse(f"{path} is already trained")
    if not arguments.lab:
        if passed:
            raise InputError(f"{passed[0]} is an argument for JupyterLab; add --lab before --")
        folder = captured(path) if path and not is_trained else path
        source = folder if is_trained else load_scene(folder or builtin_scene_path(), **given)
        return _show(arguments, source)
    if arguments.lan:
        raise InputError("--lan and --lab cannot be used together; remove one of them")
    file = _notebook_for(path, given)
    print(file, flush=True)
    # -P prevents Python from importing a jupyterlab.py from the working folder.
    command = [sys.executable, "-P", "-m", "jupyterlab", str(file.resolve())]
    # The address that JupyterLab prints opens only the notebook, without the file browser.
    command += [f"--LabApp.default_url=/doc/tree/{quote(file.name)}"]
    # This prevents JupyterLab from checking PyPI for a newer version.
    command += ["--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"]
    command += [] if arguments.browser else ["--no-browser"]
    command += [f"--port={arguments.port}"] if arguments.port is not None else []
    command += [ALLOW_ROOT] if os.geteuid() == 0 and ALLOW_ROOT not in passed else []
    command += passed
    # This prevents a dialog about JupyterLab news that would cover the toolbar of the notebook.
    paths = [str(SETTINGS), os.environ.get("JUPYTER_CONFIG_PATH", "")]
    os.environ["JUPYTER_CONFIG_PATH"] = os.pathsep.join(path for path in paths if path)
    # JupyterLab replaces this process, so it receives the signals and determines the exit code.
    os.execv(command[0], command)


def _show(arguments: View, source: Path | Scene | None) -> int:
    """Show the viewer on a page of its own until the user presses Ctrl-C, and save the steps that
    are not saved."""
    # These modules are slow to import, and require the packages of the extra `notebook`.
    import segno

    from nerfmac.app.viewer.path_editor import free_path
    from nerfmac.app.viewer.serving import ServedViewer, Server

    def begin(send: Any) -> ServedViewer:
        viewer = ServedViewer(source, send)
        if isinstance(source, Scene):
            viewer.train(seconds=SECONDS)
        return viewer

    lan = _local_address() if arguments.lan else None
    server = Server(lan, arguments.port)
    place = f"{server.port}/?token={server.token}"
    print(address := f"http://{lan or '127.0.0.1'}:{place}", flush=True)
    if arguments.lan:
        print(f"http://{_bonjour_name()}.local:{place}")
        segno.make(address).terminal(compact=True)
    print("press Ctrl-C to stop", flush=True)
    if arguments.browser:
        Thread(target=webbrowser.open, args=(f"http://127.0.0.1:{place}",), daemon=True).start()
    server.run(begin)
    if (viewer := server.viewer) is not None:
        viewer.pause()
        if viewer in ServedViewer.unsaved():
            folder = free_path(Path("runs") / viewer.run.name)
            viewer.save(folder)
            print(f"saved the run in {folder}")
        viewer.close()
    return 0


def _local_address() -> str:
    """Return the address of this machine in the local network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, suppress(OSError):
        probe.connect(("192.0.2.1", 9))  # An address for documentation; nothing is sent.
        return str(probe.getsockname()[0])
    return socket.gethostname()


def _bonjour_name() -> str:
    """Return the name of this machine in the local network, without `.local`. Unlike the address,
    it does not change if the machine also uses a VPN. On macOS, the host name may differ."""
    command, name = ["scutil", "--get", "LocalHostName"], ""
    if sys.platform == "darwin":
        name = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    return name or socket.gethostname().partition(".")[0]


def _notebook_for(path: Path | None, options: dict[str, Any]) -> Path:
    """Write the notebook for a run, a snapshot, or a scene, unless the notebook exists. `options`
    are arguments of `load_scene`. Returns the path of the notebook."""
    if path is not None and is_run(path):
        read_scene(path)
        file, shown, name = path / "view.ipynb", '"."', path.resolve().name
        values = notebook(name, shown, f"../{name}-continued", "video.mp4", is_trained=True)
    elif path is not None and is_snapshot(path):
        read_container(path)
        file, name = path.with_name(f"{path.stem}-view.ipynb"), path.stem
        shown = json.dumps(path.name, ensure_ascii=False)
        values = notebook(name, shown, None, f"{name}.mp4", is_trained=True)
    else:
        name, shown = _scene(path, options)
        file = Path(f"{name}-view.ipynb")
        values = notebook(name, shown, f"runs/{name}", f"{name}.mp4", is_trained=False)
    if file.exists():
        _check_shown(file, shown)
        return file
    try:
        write_json(file, values)
    except InputError as error:
        place = "copy the run to" if path is not None and is_run(path) else "start the command in"
        raise InputError(
            f"{error}; {place} a folder where you may write, or create a notebook there with "
            f"`nerfmac.Viewer({str(path.resolve()) if path else BUILTIN!r})`"
        ) from error
    return file


def _scene(path: Path | None, options: dict[str, Any]) -> tuple[str, str]:
    """Return the scene name and the Python code that loads the scene with `options`."""
    folder = captured(path) if path else builtin_scene_path()
    code = json.dumps(str(folder.resolve()), ensure_ascii=False) if path else BUILTIN
    keywords = "".join(f", {name}={value!r}" for name, value in options.items())
    try:
        name = load_scene(folder, **options).name
    except InputError as error:
        problem = f"{path} is neither a run (it has no config.json) nor a scene: {error}"
        raise error if holds_scene(folder) else InputError(problem) from error
    return name, f"nerfmac.load_scene({code}{keywords})" if keywords else code


def _check_shown(file: Path, shown: str) -> None:
    """Raise `InputError` unless nerfmac has written a notebook for the same run or scene."""
    values = read_json(file)
    with suppress(KeyError, TypeError):
        if values["metadata"]["nerfmac"]["shows"] == shown:
            return
    raise InputError(
        f"{file} already exists and does not show {shown}; rename the file, or run "
        "nerfmac view in another folder"
    )


def notebook(
    name: str, shown: str, saved: str | None, video: str, *, is_trained: bool
) -> dict[str, Any]:
    """Return a notebook that shows a scene or a run, from the template `jupyter/notebook.json`.
    `shown` is the Python code of the argument of `Viewer`, and is stored in the metadata. Unless it
    `is_trained`, the first cell starts training. If `saved` is None, the cells that save the run
    are omitted. The code is collapsed, so that the viewer is visible when the notebook opens."""
    parts = {
        "name": name,
        "shown": shown,
        "train": "" if is_trained else TRAIN,
        "saved": json.dumps(saved),
        "video": json.dumps(video),
    }
    values: dict[str, Any] = read_json(SETTINGS / "notebook.json")
    if saved is None:
        del values["cells"][2:4]
    for cell in values["cells"]:
        text = re.sub(r"\{(\w+)\}", lambda match: parts[match[1]], "".join(cell["source"]))
        cell["source"] = text.splitlines(keepends=True)
    values["metadata"]["nerfmac"] = {"shows": shown}
    return values
