"""The path panel: keyframes, going along the path, its file, and the video along it."""

import pytest

from tests.app.viewer.page.driver import POSE

PATH = [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
KEYFRAMES = [
    {"pose": POSE, "fov": 40.0, "seconds": None, "time": 0.0},
    {"pose": POSE, "fov": 55.4, "seconds": 3.0, "time": 0.6},
    {"pose": POSE, "fov": 55.4, "seconds": None, "time": 1.0},
]
SIZES = [[406, 720], [720, 1280], [1080, 1080]]


@pytest.fixture
def panel(view):
    """The path panel, open, with three keyframes and the sizes of upright videos."""
    view.say({"kind": "cameras", "cameras": [], "names": [], "sizes": SIZES})
    view.state(keyframes=KEYFRAMES, path=PATH)
    view.button("Path panel").click()
    view.page.locator(".nerfmac-panel-path .nerfmac-more summary").click()
    view.forget()
    return view


BUTTONS = {
    "Add the current view to the path": {"kind": "keyframe", "action": "add"},
    "Go to keyframe 2": {"kind": "keyframe", "action": "go", "index": 1},
    "Replace keyframe 1 with the current view": {
        "kind": "keyframe", "action": "replace", "index": 0,
    },
    "Remove keyframe 2": {"kind": "keyframe", "action": "remove", "index": 1},
    "Remove all keyframes": {"kind": "clear"},
    "Save the path": {"kind": "save", "name": "runs/balls-path.json"},
    "Load a path": {"kind": "load", "name": "runs/balls-path.json"},
    "Render the video": {
        "kind": "video", "name": "runs/balls.mp4", "seconds": 5, "fps": 24, "width": 406,
        "height": 720,
    },
}  # fmt: skip


def test_a_button_says_what_it_does(panel):
    for button in BUTTONS:
        panel.button(button).click()
    assert panel.sent() == [*BUTTONS.values()]


def test_the_chosen_move_stays_chosen_and_no_keyframes_replace_the_users(panel):
    select = panel.page.get_by_label("Move", exact=True)
    select.select_option("figure of eight")
    assert panel.sent() == [{"kind": "follow", "name": "figure-of-eight"}]
    panel.state(keyframes=KEYFRAMES, move="spiral", path=PATH)
    assert select.input_value() == "spiral"
    items = panel.page.get_by_role("list", name="Keyframes").get_by_role("listitem")
    assert [item.inner_text().split("\n")[0] for item in items.all()] == [
        "1 · 40°", "2 · 55°", "3 · 55°",
    ]  # fmt: skip
    panel.state(keyframes=[], move="spiral", path=PATH)
    assert panel.page.get_by_text("Move the camera and add a keyframe").is_hidden()
    assert panel.button("Play the path").is_enabled()
    panel.state(keyframes=[], move="keyframes", path=[])
    assert panel.button("Play the path").is_enabled(), "the orbit, as the video"


def test_play_moves_along_the_path_until_it_is_pressed_again_or_the_camera_is_moved(panel):
    panel.show(1)
    panel.state(keyframes=KEYFRAMES, path=PATH)
    for stopped_by in ("button", "drag"):
        panel.state(keyframes=KEYFRAMES, path=PATH)
        panel.forget()
        panel.button("Play the path").click()
        panel.page.wait_for_function("() => sent.filter(m => m.kind === 'scrub').length > 5")
        if stopped_by == "button":
            panel.button("Pause the path").click()
        else:
            panel.drag((60, 60), (90, 60))
        panel.button("Play the path").wait_for()
        is_live = panel.page.locator(".nerfmac-viewer").get_attribute("data-live")
        assert is_live == "true", "silence of the kernel has stopped it, not the user"
        places = [each["at"] for each in panel.sent("scrub")]
        assert places == sorted(places)
        assert places[0] < places[-1] < 1.0
        assert panel.sent("move"), "the kernel does not learn that the camera is at rest"
        panel.settle()
        panel.forget()
        panel.settle()
        assert panel.sent("scrub") == []


def test_a_video_is_there_to_watch_and_to_keep_and_the_one_before_is_freed(panel):
    panel.run(
        """() => {
          window.freed = [];
          const free = URL.revokeObjectURL;
          URL.revokeObjectURL = (address) => { freed.push(address); free.call(URL, address); };
        }"""
    )
    addresses = []
    for name, content in (("one.mp4", b"first"), ("two.mp4", b"second")):
        panel.say({"kind": "video", "name": name}, content)
        link = panel.page.get_by_role("link", name=f"Download {name}")
        assert link.get_attribute("download") == name
        address = panel.page.locator("video").get_attribute("src")
        assert link.get_attribute("href") == address
        got = panel.run("async (address) => await (await fetch(address)).text()", address)
        assert got == content.decode()
        assert panel.run("freed") == addresses
        addresses.append(address)
    panel.run("endView()")
    assert panel.run("freed") == addresses
