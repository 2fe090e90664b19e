"""Exports that the page starts: their files, progress, and end, while the page stays in use."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from nerfmac.app.export import kinds, scene_page
from nerfmac.app.viewer import shown_scene
from nerfmac.app.viewer.shown_scene import initial_crop_box
from nerfmac.geometry.bounds import Sphere

trimesh = pytest.importorskip("trimesh")
BOX = ((0.3, 0.3, 0.3), (0.62, 0.62, 0.62))


@pytest.fixture
def desk(page, tmp_path, monkeypatch):
    """An open page at rest, in an empty folder; exports are coarse."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(scene_page, "STILL_SIZES", {"still": (16, 12), "portrait": (8, 12)})
    coarse = {"mesh": {"resolution": 16}, "points": {"count": 50}}
    for kind, options in coarse.items():
        whole = getattr(kinds, f"extract_{kind}")
        monkeypatch.setattr(
            kinds, f"extract_{kind}", lambda *a, w=whole, o=options, **b: w(*a, **o, **b)
        )
    monkeypatch.setattr("nerfmac.app.export.points.OPAQUE", 0.02)
    page.open().settle()
    return page


def ask(page, what, name):
    page.say("export", what=what, name=name)
    return page.settle().state()


@pytest.mark.parametrize(
    ("what", "name"), [("mesh", "m.glb"), ("points", "p.ply"), ("page", "p.html")]
)
def test_an_export_has_the_crop_box_in_force(desk, tmp_path, what, name):
    state = ask(desk, what, f"all/{name}")
    assert (desk.notice, state["export"]) == (None, None)
    exported = state["exported"]
    assert (exported["name"], exported["path"]) == (name, str(tmp_path / "all" / name))
    assert re.fullmatch(r"\d+\.\d MB", exported["size"])
    desk.session.set({"crop": BOX})
    ask(desk, what, f"cropped/{name}")
    assert desk.notice is None
    files = [tmp_path / folder / name for folder in ("all", "cropped")]
    if what == "page":
        bits = [re.search(r'id="bits">(.*?)<', file.read_text())[1] for file in files]
        assert len(bits[1]) < len(bits[0])
        return
    whole, part = (trimesh.load(file, process=False) for file in files)
    vertices = [
        np.vstack([each.vertices for each in trimesh.Scene(one).dump()]) for one in (whole, part)
    ]
    extents = [np.ptp(some, axis=0).max() for some in vertices]
    assert extents[1] < 0.75 * extents[0]


def test_cameras_need_no_steps_and_no_file_is_replaced(desk, tmp_path):
    (tmp_path / "c.json").write_text("kept")
    state = ask(desk, "cameras", "c.json")
    assert state["exported"]["name"] == "c-2.json"
    assert len(json.loads((tmp_path / "c-2.json").read_text())["frames"]) == 10
    assert (tmp_path / "c.json").read_text() == "kept"


def test_the_page_is_drawn_and_heard_during_an_export_and_can_end_it(desk, tmp_path, monkeypatch):
    stages = []
    heard = desk.kernel._send

    def hear(message, buffers):
        heard(message, buffers)
        if message["kind"] == "state" and message["export"]:
            if not stages:
                desk.say("set", values={"exposure": 1.0})
            stages.append(message["export"])
        if message["kind"] == "frame" and desk.kernel.display.exposure == 1.0 and stages:
            desk.say("cancel_export")

    monkeypatch.setattr("nerfmac.app.export.density.BATCH", 2**6)  # a step for each plane
    monkeypatch.setattr(desk.kernel, "_send", hear)
    monkeypatch.setattr("nerfmac.app.viewer.open_page.INTERVAL", 0.0)
    desk.say("export", what="mesh", name="m.glb").settle()
    assert desk.kernel.display.exposure == 1.0
    assert {each["name"] for each in stages} == {"m.glb"}
    assert stages[0]["done"] < stages[-1]["done"] < 1.0
    assert (desk.session.jobs.exported, [*tmp_path.iterdir()]) == (None, []), "it was not canceled"


@pytest.mark.parametrize("up", [1.0, -1.0])
def test_the_crop_box_begins_a_little_below_the_floor(small_run, monkeypatch, up):
    random = np.random.default_rng(0)
    floor = random.uniform(0.2, 0.8, (2000, 3))
    floor[:, 2] = 0.5 - 0.11 * up
    record = replace(
        small_run.scene, subject=Sphere((0.5, 0.5, 0.5), 0.15), up=(0.0, 0.0, up), extent=1.0
    )
    source = replace(small_run.images(), points=floor)
    run = replace(small_run, scene=record, source=source)
    low, high = initial_crop_box(run)
    below = (0.5 - 0.11 * up - (low if up > 0 else high)[2]) * up
    assert 0.005 < below < 0.03
    assert np.allclose([low[:2], high[:2]], [[0.275] * 2, [0.725] * 2])
    assert (high if up > 0 else low)[2] == pytest.approx(0.5 + 0.225 * up)
    monkeypatch.setattr(shown_scene, "scene_ground_plane", lambda *_: None)
    assert np.allclose(initial_crop_box(run), [[0.275] * 3, [0.725] * 3])
