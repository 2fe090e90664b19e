"""The export panel: formats and their files, progress, and the file that was written."""

import pytest


@pytest.fixture
def panel(view):
    view.button("Export panel").click()
    view.forget()
    return view


def test_a_format_suggests_its_file_and_a_name_without_an_extension_gets_one(panel):
    name = panel.control("File of the export")
    format_ = panel.control("Format")
    start = panel.button("Export the scene to the file")
    for label, what, ending in (
        ("web page", "page", ".html"), ("mesh", "mesh", ".glb"), ("point cloud", "points", ".ply"),
        ("cameras", "cameras", ".json"),
    ):  # fmt: skip
        format_.select_option(label)
        assert name.input_value() == f"runs/balls{ending}"
        for text, file in ((None, f"runs/balls{ending}"), ("mine", f"mine{ending}")):
            if text:
                name.fill(text)
            start.click()
            assert panel.sent() == [{"kind": "export", "what": what, "name": file}]
            panel.forget()
    panel.state()
    assert name.input_value() == "mine", "the name that the user has typed"
    format_.select_option("mesh")
    name.fill("mine.obj")
    start.click()
    assert panel.sent()[0]["name"] == "mine.obj"


def test_progress_is_shown_and_the_file_until_the_next_export(panel):
    panel.state(export={"name": "balls.glb", "stage": "depth", "done": 0.254})
    bar = panel.page.get_by_role("progressbar", name="Progress of the export")
    assert bar.get_attribute("aria-valuenow") == "25"
    panel.page.get_by_text("balls.glb: depth 25 %").wait_for()
    assert not panel.button("Export the scene to the file").is_visible()
    panel.button("Cancel the export").click()
    assert panel.sent() == [{"kind": "cancel_export"}]
    panel.state(exported="runs/balls.glb (2.1 MB)")
    assert not bar.is_visible()
    done = panel.page.locator(".nerfmac-exported")
    assert done.inner_text() == "Saved runs/balls.glb (2.1 MB)"
    panel.state(exported="runs/balls.glb (2.1 MB)", training={"step": 9})
    assert done.is_visible()
    panel.state(export={"name": "balls.ply", "stage": "", "done": 0})
    assert not done.is_visible()
