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
