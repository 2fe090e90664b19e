"""`nerfmac data`: public scenes, fetched from a server on this machine."""

import hashlib
import io
import zipfile
from dataclasses import replace

import pytest

from nerfmac.app.datasets import catalog, fetch
from nerfmac.app.datasets.catalog import Collection, File
from nerfmac.common.checks import InputError
from tests.app.datasets.server import serving
from tests.scene_factory import nerfmac


@pytest.fixture
def server(monkeypatch):
    with serving() as server:
        monkeypatch.setattr(catalog, "COLLECTIONS", ())
        yield server


def archived(members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as zipped:
        for name, content in members.items():
            zipped.writestr(name, content)
    return file.getvalue()


def publish(monkeypatch, server, content, *, checksum="right", inside="all"):
    """Serve the archive `content` as a collection "zips" with the scenes "ball" and "cube"."""
    server.files["/zips.zip"] = content
    digest = hashlib.sha256(content).hexdigest()
    sums = {"right": f"sha256:{digest}", "wrong": f"sha256:{'0' * 64}", "none": None}
    file = File(f"{server.address}/zips.zip", "zips.zip", sums[checksum])
    scenes = ("ball", "cube")
    zips = Collection("zips", "about", scenes, "1 kB", "CC0", "page", (file,), inside)
    monkeypatch.setattr(catalog, "COLLECTIONS", (zips,))


IMAGES = bytes(range(256)) * 40
CONTENT = archived({"all/ball/a.png": IMAGES, "all/ball/b/c.png": b"c", "all/cube/d.png": b"d"})


def files_in(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("inside", ["all", ""])
def test_a_scene_of_an_archive_is_fetched_and_the_next_needs_no_network(
    monkeypatch, tmp_path, server, inside
):
    prefix = f"{inside}/" if inside else ""
    members = {"ball/a.png": IMAGES, "ball/b/c.png": b"c", "cube/d.png": b"d"}
    content = archived({f"{prefix}{name}": content for name, content in members.items()})
    publish(monkeypatch, server, content, inside=inside)
    folder = fetch("ball", tmp_path, progress=False)
    assert folder == tmp_path / "zips" / "ball"
    assert (folder / "a.png").read_bytes() == IMAGES
    assert files_in(tmp_path) == ["zips/ball/a.png", "zips/ball/b/c.png", "zips/zips.zip"]
    fetch("zips/cube", tmp_path, progress=False)
    fetch("ball", tmp_path, progress=False)
    assert (tmp_path / "zips" / "cube" / "d.png").read_bytes() == b"d"
    assert server.asked == ["/zips.zip"]


@pytest.mark.parametrize("checksum", ["right", "none"])
def test_a_broken_download_leaves_nothing_and_starts_again(
    monkeypatch, capsys, tmp_path, server, checksum
):
    publish(monkeypatch, server, CONTENT, checksum=checksum)
    server.break_after = 3000
    assert nerfmac("data", "ball", "--out", tmp_path) == 2
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "nerfmac:" in line]
    assert "was interrupted; run the same command again" in line
    assert files_in(tmp_path) == []
    server.break_after = None
    assert nerfmac("data", "ball", "--out", tmp_path) == 0
    assert (tmp_path / "zips" / "ball" / "a.png").read_bytes() == IMAGES
    assert (tmp_path / "zips" / "zips.zip").read_bytes() == CONTENT
    said = capsys.readouterr().out
    assert "ball is ready. License: CC0" in said
    assert "zips.zip is kept" in said


def test_a_wrong_checksum_is_refused_and_nothing_is_kept(monkeypatch, capsys, tmp_path, server):
    publish(monkeypatch, server, CONTENT, checksum="wrong")
    assert nerfmac("data", "ball", "--out", tmp_path) == 2
    assert f"does not have the checksum sha256:{'0' * 64}" in capsys.readouterr().err
    assert files_in(tmp_path) == []


@pytest.mark.parametrize("name", ["../out.png", "all/ball/../../../out.png", "/tmp/out.png"])
def test_an_archive_that_leads_out_of_its_folder_is_refused(monkeypatch, tmp_path, server, name):
    publish(monkeypatch, server, archived({"all/ball/a.png": b"a", name: b"out"}))
    with pytest.raises(InputError, match="is outside its folder, so nothing was extracted"):
        fetch("ball", tmp_path, progress=False)
    assert files_in(tmp_path) == ["zips/zips.zip"]


def test_a_link_in_an_archive_is_no_link_outside(monkeypatch, tmp_path, server):
    link = zipfile.ZipInfo("all/ball/a.png")
    link.external_attr = 0o120777 << 16
    publish(monkeypatch, server, archived({link: b"/etc/hostname"}))
    (path,) = fetch("ball", tmp_path, progress=False).iterdir()
    assert not path.is_symlink()


def test_an_archive_that_inflates_without_measure_is_refused(monkeypatch, tmp_path, server):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("all/ball/a.png", bytes(10**6))
    publish(monkeypatch, server, file.getvalue())
    with pytest.raises(InputError, match=r"expand to 0\.0 GB"):
        fetch("ball", tmp_path, progress=False)
    assert files_in(tmp_path) == ["zips/zips.zip"]


def loose(server, files):
    listed = []
    for name, content in files.items():
        server.files[f"/{name}"] = content
        digest = hashlib.sha256(content).hexdigest()
        listed.append(File(f"{server.address}/{name}", name, f"sha256:{digest}"))
    return Collection("loose", "about", ("fox",), "1 kB", "CC0", "page", tuple(listed), None)


def test_files_that_are_no_archive_are_fetched_one_by_one(monkeypatch, tmp_path, server):
    collection = loose(server, {"images/1.png": b"one", "images/2.png": b"two", "t.json": b"{}"})
    monkeypatch.setattr(catalog, "COLLECTIONS", (collection,))
    del server.files["/t.json"]
    with pytest.raises(InputError, match="failed with 404"):
        fetch("fox", tmp_path, progress=False)
    assert files_in(tmp_path) == []
    server.files["/t.json"] = b"{}"
    folder = fetch("fox", tmp_path, progress=False)
    assert files_in(folder) == ["images/1.png", "images/2.png", "t.json"]


def test_without_the_network_one_line_says_so(monkeypatch, capsys, tmp_path, server):
    publish(monkeypatch, server, CONTENT)
    (zips,) = catalog.COLLECTIONS
    away = replace(zips.files[0], url="http://127.0.0.1:1/zips.zip")  # a closed port
    monkeypatch.setattr(catalog, "COLLECTIONS", (replace(zips, files=(away,)),))
    assert nerfmac("data", "ball", "--out", tmp_path) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "cannot reach 127.0.0.1:1 (" in line
    assert "requires the network" in line
    assert files_in(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("leggo", "did you mean lego?"),
        ("room", "llff/room or mipnerf360/room"),
        ("zz", "list them"),
    ],
)
def test_a_name_that_no_scene_or_several_have_is_refused(capsys, tmp_path, name, named):
    assert nerfmac("data", name, "--out", tmp_path) == 2
    assert named in capsys.readouterr().err
    assert files_in(tmp_path) == []
