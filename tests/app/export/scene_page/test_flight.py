"""Camera moves on the page with pointer, wheel, keys, and touch, as in the viewer."""

import numpy as np
import pytest

from nerfmac.app.paths import View

SIZE = {"width": 200, "height": 100}


@pytest.fixture(scope="module")
def tab(trained, open_page):
    opened = open_page(trained, context={"viewport": SIZE})
    assert opened.shows() == "field"
    yield opened
    opened.close()


@pytest.fixture
def home(trained, tab):
    """Return the first view, after moving the page to it."""
    tab.run("document.getElementById('image').focus()")
    tab.page.keyboard.press("KeyR")
    view = View.initial(trained.scene.cameras("train"), trained.scene.up)
    tab.wait("document.body.nerfmac.flight.view === document.body.nerfmac.flight.home")
    assert is_at(tab, view)
    return view


def is_at(tab, view: View) -> bool:
    shown = tab.view()
    pose, center = np.reshape(shown["pose"], (3, 4)), np.array(shown["center"])
    return bool(np.abs(pose - view.pose).max() < 1e-6 and np.abs(center - view.center).max() < 1e-6)


def settle(tab) -> None:
    """Wait for two frames, so that the view includes all moves."""
    tab.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


@pytest.mark.parametrize("button", ["left", "right"])
def test_dragging_turns_around_the_center_or_moves_with_it(tab, home, button):
    mouse = tab.page.mouse
    mouse.move(60, 50)
    mouse.down(button=button)
    mouse.move(90, 62, steps=3)
    settle(tab)
    is_moving = "document.body.nerfmac.flight.screen.isMoving"
    assert tab.run(is_moving)
    mouse.up(button=button)
    settle(tab)
    assert not tab.run(is_moving), "it would stay coarse"
    shown, center = np.reshape(tab.view()["pose"], (3, 4)), np.array(tab.view()["center"])
    right, down = 0.30, 0.12  # of the image height
    if button == "right":
        height = 2.0 * home.distance * np.tan(0.5 * home.fov)
        moved = height * (down * home.pose[:, 1] - right * home.pose[:, 0])
        np.testing.assert_allclose(shown[:, :3], home.pose[:, :3], atol=1e-6)
        np.testing.assert_allclose(shown[:, 3] - home.pose[:, 3], moved, atol=1e-3)
        np.testing.assert_allclose(center - home.center, moved, atol=1e-3)
        return
    np.testing.assert_allclose(center, home.center, atol=1e-6)
    assert np.linalg.norm(shown[:, 3] - center) == pytest.approx(home.distance, rel=1e-5)
    x, y, z = np.stack([home.pose[:, 2], shown[:, 2]], axis=1)  # The z axis is up.
    assert -np.diff(np.arctan2(y, x)) == pytest.approx(np.pi * right, abs=0.02)
    assert np.diff(np.arcsin(z)) == pytest.approx(np.pi * down, abs=0.02)


def test_a_double_click_looks_at_what_is_seen_there(trained, tab, home):
    tab.wait(f"document.body.nerfmac.flight.screen.shown?.width === {SIZE['width']}")
    x, y = 140, 32  # far from the middle, where depth and distance differ
    tab.page.mouse.dblclick(x, y)
    tab.wait("document.body.nerfmac.flight.view !== document.body.nerfmac.flight.home")
    camera = home.camera(SIZE["width"], SIZE["height"])
    depth = trained.render(camera).depth[y, x]
    lens = camera.lens
    local = np.array([(x - lens.cx) / lens.fl_x, -(y - lens.cy) / lens.fl_y, -1.0])
    point = home.pose[:, 3] + depth * home.pose[:, :3] @ local / np.linalg.norm(local)
    assert np.linalg.norm(np.array(tab.view()["center"]) - point) < 0.02
    want = home.look_at(tab.view()["center"])
    assert np.abs(np.reshape(tab.view()["pose"], (3, 4)) - want.pose).max() < 1e-6
