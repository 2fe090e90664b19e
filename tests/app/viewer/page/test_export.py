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


@pytest.mark.parametrize(("root", "links"), [("~/work", 2), ("/me/work", 2), ("/other", 0)])
def test_in_jupyterlab_the_links_are_those_of_its_server(panel, root, links):
    panel.run(
        """(serverRoot) => {
          const config = Object.assign(document.createElement("script"), {
            id: "jupyter-config-data", type: "application/json",
            textContent: JSON.stringify({ serverRoot, baseUrl: "/lab/" }),
          });
          document.getElementById(config.id)?.remove(); // of another test
          document.head.append(config);
        }""",
        root,
    )
    file = {"name": "my balls.html", "size": "2.1 MB", "home": "/me"}
    panel.state(exported={**file, "path": "/me/work/runs/my balls.html"})
    shown = panel.page.locator(".nerfmac-exported a")
    found = [shown.nth(index).get_attribute("href") for index in range(shown.count())]
    assert found == ["/lab/files/runs/my%20balls.html"] * links


def test_without_the_option_lan_the_share_panel_says_how_to_share(view):
    view.button("Share panel").click()
    assert "--lan" in view.page.locator(".nerfmac-panel-share").inner_text()
