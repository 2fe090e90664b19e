"""`nerfmac export` selects the format by the file extension, and writes no file after an error."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from importlib.util import find_spec

import pytest

from tests.app.cli.refusals import everything, refused
from tests.scene_factory import nerfmac

# Imported inside functions, because it imports SciPy and each test process imports this file.
pytestmark = pytest.mark.skipif(find_spec("trimesh") is None, reason="needs the extra export")

THIN = ("--resolution", 12, "--threshold", 0.1)
"""Options for a run of two steps, before it has a surface."""


@pytest.mark.parametrize("name", ["mesh.ply", "mesh.GLB"])
def test_a_mesh_by_its_files_ending(run, tmp_path, capsys, name):
    import trimesh

    assert nerfmac("export", run, tmp_path / name, *THIN, "--smallest", 0) == 0
    vertices, faces = (int(word) for word in capsys.readouterr().out.split()[1::2][:2])
    mesh = trimesh.load_mesh(tmp_path / name, file_type=name[-3:].lower(), process=False)
    assert (len(mesh.vertices), len(mesh.faces)) == (vertices, faces)
    assert faces > 100


def test_cameras_and_points(run, tmp_path, capsys, monkeypatch):
    import trimesh

    assert nerfmac("export", run, tmp_path / "c.json") == 0
    assert len(json.loads((tmp_path / "c.json").read_text())["frames"]) == 5, (
        "3 of training, 2 of test"
    )
    monkeypatch.setattr("nerfmac.app.export.points.RAYS", 2**10)
    monkeypatch.setattr("nerfmac.app.export.points.OPAQUE", 0.02)
    assert nerfmac("export", run, tmp_path / "p.ply", "--as", "points", "--count", 50) == 0
    assert capsys.readouterr().out.endswith(f"{tmp_path / 'p.ply'}: 50 points\n")
    assert len(trimesh.load(tmp_path / "p.ply").vertices) == 50


def test_a_page_with_its_path_and_background(run, tmp_path, capsys, monkeypatch):
    sizes = {"still": (16, 12), "portrait": (8, 12)}
    monkeypatch.setattr("nerfmac.app.export.scene_page.STILL_SIZES", sizes)
    flags = ("--path", "orbit", "--background", "51,102,255", "--title", "Mine")
    assert nerfmac("export", run, tmp_path / "p.html", *flags) == 0
    assert capsys.readouterr().out.startswith(f"{tmp_path / 'p.html'}: ")
    text = (tmp_path / "p.html").read_text()
    (values,) = re.findall(r'<script type="application/json" id="scene">(.*?)</script>', text)
    scene = json.loads(values)
    assert "<title>Mine</title>" in text
    assert scene["background"] == [0.2, 0.4, 1.0]
    path = scene["path"]
    assert (path["fps"], path["closed"]) == (12.0, True)
    assert {len(frame) for frame in path["frames"]} == {13}
    assert scene["view"]["pose"] == pytest.approx(path["frames"][0][:12], abs=1e-5)


def test_an_existing_file_is_replaced_only_on_request(run, tmp_path, capsys):
    file = tmp_path / "cameras.json"
    file.write_text("kept")
    names = [f"{file} already exists; choose another name, or replace it with --overwrite"]
    refused(capsys, tmp_path, "export", run, file, names=names)
    assert nerfmac("export", run, file, "--overwrite") == 0
    assert len(json.loads(file.read_text())["frames"]) == 5


@pytest.mark.parametrize(
    ("name", "flags", "names"),
    [
        ("m.stl", (), ["m.stl': the file extension must be one of", "points: .ply; cameras:"]),
        ("d.vdb", ("--as", "mesh"), ["cannot write a mesh to", "d.vdb'", ".glb"]),
        ("m.ply", ("--as", "shape"), ["--as is 'shape'", "mesh, points, cameras, density"]),
        ("c.json", ("--resolution", 9), ["--resolution", "cameras"]),
        ("m.ply", ("--path", "orbit"), ["--path cannot be used to export mesh"]),
        ("p.html", ("--path", "orbti"), ["--path is 'orbti'; did you mean orbit?"]),
        ("p.html", ("--background", "1,2"), ["--background is '1,2'; expected white"]),
        ("m.ply", ("--resolution", 4096), ["of the machine's", "GB; a resolution of"]),
        ("m.ply", ("--smallest", 1.5), ["smallest is 1.5; expected between 0 and 1"]),
        ("m.ply", ("--crop", "0,0,0,1,-1,1"), ["(1.00, -1.00, 1.00); expected the"]),
        ("m.ply", ("--threshold", "high"), ["--threshold is 'high'; expected a number"]),
        ("m.ply", ("--crop", "9,9,9,10,10,10"), ["outside of the scene cube"]),
        ("nowhere/m.ply", (), ["nowhere/m.ply cannot be written: No such file"]),
    ],
)
def test_what_cannot_be_done_is_refused(capsys, tmp_path, run, name, flags, names):
    refused(capsys, tmp_path, "export", run, tmp_path / name, *flags, names=names)


def test_an_empty_mesh_and_a_folder_in_the_way_leave_nothing(capfd, tmp_path, run):
    (tmp_path / "folder.ply").mkdir()
    before = everything(tmp_path)
    assert nerfmac("export", run, tmp_path / "folder.ply") == 2
    assert "it is a folder" in capfd.readouterr().err
    assert nerfmac("export", run, tmp_path / "m.ply", "--resolution", 8) == 2
    assert "the mesh is empty: no density in the box exceeds" in capfd.readouterr().err
    assert everything(tmp_path) == before


def test_an_interrupted_export_leaves_nothing(tmp_path, run):
    before = everything(tmp_path)
    command = [sys.executable, "-m", "nerfmac", "export", run, tmp_path / "m.ply"]
    flags = ["--resolution", "400", "--threshold", "0.01", "--device", "cpu"]
    words = [*map(str, command), *flags]
    # Shells start background jobs, and with them these tests, with SIGINT ignored.
    hears = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}
    with subprocess.Popen(words, stderr=subprocess.PIPE, env=os.environ, **hears) as process:
        end = time.monotonic() + 120
        while b"density" not in os.read(process.stderr.fileno(), 4096):
            assert time.monotonic() < end
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 130
    assert everything(tmp_path) == before
