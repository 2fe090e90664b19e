"""The program makes no connections to other machines: every socket is on the loopback interface."""

import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from PIL import Image

import nerfmac
from tests.app.capture import corner
from tests.app.viewer.notebook.lab import free_port, jupyter_environment, wait_for_answer
from tests.scene_factory import FLAGS

pytestmark = pytest.mark.slow

PATIENCE = 60.0  # seconds until a server must answer

COMMANDS = """
import json, sys
from nerfmac.app.cli import main
for words in json.loads(sys.argv[1]):
    try:
        main(words)
    except SystemExit as end:
        print(*words[:2], end.code, file=sys.stderr)
        if end.code:
            sys.exit(1)
import nerfmac
viewer = nerfmac.Viewer(json.loads(sys.argv[1])[-1][1])
viewer.train(steps=30)
viewer.wait()
viewer.close()
"""


@pytest.fixture
def watched(tmp_path):
    """Return the environment of a watched process, and its notes."""
    log, here = tmp_path / "network.log", Path(__file__).parent
    log.touch()
    environment = {**os.environ, **jupyter_environment(tmp_path / "jupyter")}
    environment["PYTHONPATH"] = f"{here}{os.pathsep}{environment['PYTHONPATH']}"
    return {**environment, "NETWORK_LOG": str(log)}, log


def test_no_command_uses_the_network(balls, tmp_path, watched):
    environment, log = watched
    run, photos = tmp_path / "run", tmp_path / "photos"
    photos.mkdir()
    for index, camera in enumerate(corner.cameras(4)):
        Image.fromarray(corner.seen(camera)).save(photos / f"{index}.png")
    cpu = ("--device", "cpu")
    commands = [
        ("info", *cpu),
        ("data",),
        ("inspect", balls),
        ("capture", photos, "--out", tmp_path / "scene", "--focal-35mm", 28),
        ("train", balls, *FLAGS, "--steps", 20, "--no-video", "--out", run),
        ("eval", run, *cpu),
        ("render", run, "--frames", 2, "--out", tmp_path / "video.mp4", *cpu),
        ("export", run, tmp_path / "cameras.json", *cpu),
        ("profile", run, "--steps", 2, "--seconds", 0.01, *cpu),
    ]
    words = json.dumps([[str(word) for word in command] for command in commands])
    command = [sys.executable, "-c", COMMANDS, words]
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert log.read_text() == ""


def test_only_datasets_can_ask_the_network():
    package = Path(nerfmac.__file__).parent
    asking = re.compile(
        r"^\s*(?:from|import) (urllib\.request|urllib3?$|http|requests|pooch|ftplib)", re.M
    )
    found = [path for path in package.rglob("*.py") if asking.search(path.read_text())]
    assert [str(path.relative_to(package)) for path in found] == ["app/datasets/fetching.py"]


@pytest.mark.parametrize(
    "planted",
    [
        "socket.create_connection(('192.0.2.1', 80), 0.1)",
        "socket.socket().bind(('', 0))",
        "subprocess.run([sys.executable, '-c', 'import socket; socket.gethostbyname(\"a.b\")'])",
    ],
)
def test_a_use_of_the_network_is_noted(watched, planted):
    environment, log = watched
    code = "import contextlib, socket, subprocess, sys, urllib.request\n"
    code += f"with contextlib.suppress(OSError):\n    {planted}"
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
    assert len(log.read_text().splitlines()) == 1


@pytest.mark.daily
def test_view_listens_on_the_loopback_interface_alone(balls, tmp_path, watched):
    environment, log = watched
    port = free_port()
    passed = ("--allow-root", "--IdentityProvider.token=", "--ServerApp.disable_check_xsrf=True")
    command = [sys.executable, "-m", "nerfmac", "view", str(balls), "--no-browser"]
    command += ["--lab", f"--port={port}", "--", *passed]
    with (tmp_path / "said").open("wb") as said:
        server = psutil.Popen(
            command, cwd=tmp_path, env=environment, stdout=said, stderr=subprocess.STDOUT
        )
    try:
        wait_for_answer(server, f"http://127.0.0.1:{port}", tmp_path / "said")
        ask(f"http://127.0.0.1:{port}/lab/api/update")  # the page sends this request when it opens
        session = {"path": "balls-view.ipynb", "name": "balls", "type": "notebook"}
        session["kernel"] = {"name": "python3"}
        ask(f"http://127.0.0.1:{port}/api/sessions", session)
        processes = [server, *server.children(recursive=True)]
        assert len(processes) > 1, "no kernel"
        heard_at = set[str]()
        for process in processes:
            with suppress(psutil.NoSuchProcess):  # JupyterLab also starts short-lived processes
                heard_at |= {
                    connection.laddr.ip
                    for connection in process.net_connections("inet")
                    if connection.status == psutil.CONN_LISTEN
                }
        assert heard_at
        assert heard_at <= {"127.0.0.1", "::1"}
    finally:
        for process in [*server.children(recursive=True), server]:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        server.wait()
    assert log.read_text() == ""


def ask(url, content=None):
    data = None if content is None else json.dumps(content).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data), timeout=PATIENCE) as answer:
        return answer.read()
