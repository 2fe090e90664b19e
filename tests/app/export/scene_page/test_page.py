"""The exported page in a browser: its contents, and the absence of network requests."""

import io
from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest
from PIL import Image

from nerfmac import Camera, InputError, Method
from nerfmac.app.export import PagePath, scene_page, write_scene_page
from nerfmac.app.paths import View
from nerfmac.geometry import Sphere, linear_to_srgb
from nerfmac.rendering.metrics import psnr
from tests.app.export.egg import Egg
from tests.scene_factory import CONFIG

pytestmark = pytest.mark.slow

WITHOUT_WEBGPU = "Object.defineProperty(navigator, 'gpu', {value: undefined});"


def hide_words(tab) -> None:
    tab.run("document.querySelectorAll('header, #note, #buttons').forEach((e) => e.remove())")


def screenshot(tab) -> np.ndarray:
    """Return a screenshot of the tab, (h, w, 3) in [0, 1]."""
    image = Image.open(io.BytesIO(tab.page.screenshot())).convert("RGB")
    return np.asarray(image, np.float32) / 255


@pytest.fixture(scope="module")
def tab(trained, open_page):
    """Return a tab with the page of the trained run, over a background that is not gray."""
    small = {"viewport": {"width": 48, "height": 36}}
    opened = open_page(trained, context=small, background=(0.3, 0.6, 0.2), title="Two <b> & more")
    assert opened.shows() == "field"
    hide_words(opened)
    yield opened
    opened.close()  # which fails if it had errors or asked for anything


@pytest.mark.parametrize("view", [0, 1, 2])
def test_its_images_are_the_renderers(trained, tab, view):
    own = trained.orbit(3)[view]
    camera = Camera(own.lens.within(48, 36), own.pose)
    want = trained.render(camera, (0.3, 0.6, 0.2))
    sums, _ = tab.image(camera)
    assert psnr(np.array(linear_to_srgb(mx.array(sums[..., :3]))), want.color) > 40
    assert 0.1 < want.opacity.mean() < 0.9, "the scene and its background are both seen"


def test_at_rest_it_shows_the_first_view_in_full_size(trained, tab):
    tab.rest()
    shown = tab.run("document.body.nerfmac.flight.screen.shown")
    assert (shown["width"], shown["height"], shown["samples"]) == (48, 36, 16)
    assert not tab.page.locator("noscript").is_visible()
    camera = View.initial(trained.scene.cameras("train"), trained.scene.up).camera(48, 36)
    large = trained.render(Camera(camera.lens.scaled(192, 144), camera.pose), (0.3, 0.6, 0.2))
    want = large.color.reshape(36, 4, 48, 4, 3).mean(axis=(1, 3))
    assert psnr(screenshot(tab), want) > 35


def test_its_policy_stops_a_request_and_a_foreign_script(trained, open_page):
    other = open_page(trained)
    heard = other.run(
        """async () => {
          const heard = [];
          document.addEventListener(
            "securitypolicyviolation", (event) => heard.push(event.effectiveDirective));
          await fetch("https://example.org/").catch(() => {});
          const script = document.createElement("script");
          script.textContent = "document.body.dataset.foreign = 1";
          document.body.append(script);
          const image = new Image();
          image.src = "https://example.org/a.png";
          await new Promise((resolve) => setTimeout(resolve, 100));
          return [...heard, document.body.dataset.foreign ?? "none"];
        }"""
    )
    assert sorted(heard) == ["connect-src", "img-src", "none", "script-src-elem"]
    other.errors.clear()  # the browser's own words about it
    other.requests[:] = [url for url in other.requests if not url.startswith("https://example")]
    other.close()


def test_without_webgpu_or_https_the_still_is_shown_with_what_is_missing(trained, open_page):
    other = open_page(trained, before=WITHOUT_WEBGPU)
    assert other.shows() == "still"
    note = other.run("document.getElementById('note').textContent")
    assert "does not support WebGPU" in note
    assert "https" not in note
    size = "[document.getElementById('still').naturalWidth, document.querySelector('canvas')]"
    assert other.run(size) == [64, None]
    other.close()
    insecure = "Object.defineProperty(window, 'isSecureContext', {value: false});"
    other = open_page(trained, before=WITHOUT_WEBGPU + insecure)
    assert other.shows() == "still"
    assert "https" in other.run("document.getElementById('note').textContent")
    other.close()


def test_without_scripts_one_line_says_how_to_open_the_page(trained, open_page):
    """Previews of files on an iPhone run no scripts."""
    other = open_page(trained, context={"java_script_enabled": False})
    note = other.page.locator("noscript .note")
    assert "runs no scripts" in note.inner_text()
    assert note.is_visible()
    assert other.page.locator("#still").is_visible()
    assert not other.page.locator("header p.mouse").is_visible()
    other.close()


@pytest.mark.parametrize(("width", "height"), [(96, 72), (48, 96), (72, 144)])
def test_the_still_is_what_the_field_will_show(trained, open_page, width, height):
    context = {"viewport": {"width": width, "height": height}}
    other = open_page(trained, WITHOUT_WEBGPU, context=context)
    assert other.shows() == "still"
    hide_words(other)
    view = View.initial(trained.scene.cameras("train"), trained.scene.up)
    slope = np.tan(0.5 * view.fov) * max(height / width, 1.0)  # the width shows it in portrait
    camera = view.with_fov(2.0 * np.arctan(slope)).camera(width, height)
    want = trained.render(camera, trained.scene.backdrop).color
    assert psnr(screenshot(other), want) > 25, "another part of the scene, or another background"
    other.close()


def test_one_run_makes_the_same_bytes_twice(trained, tmp_path):
    for name in ("one.html", "two.html"):
        write_scene_page(trained, tmp_path / name, title="Balls")
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "two.html").read_bytes()


def test_what_has_no_page_is_refused_with_nothing_written(scene, trained, tmp_path):
    run = type(trained).begin(scene, CONFIG, method=Method(field=Egg))
    with pytest.raises(InputError, match="hash grid with two networks"):
        write_scene_page(run, tmp_path / "page.html")
    with pytest.raises(InputError, match=r"cannot write a page to '.*page\.pdf'"):
        write_scene_page(trained, tmp_path / "page.pdf")
    huge = replace(trained.state, average={**trained.state.average})
    huge.average["table"] = huge.average["table"] + 1e5
    with pytest.raises(InputError, match="beyond half precision"):
        write_scene_page(replace(trained, state=huge), tmp_path / "page.html")
    assert list(tmp_path.iterdir()) == []


def test_a_path_plays_from_its_start_until_the_reader_moves(trained, open_page):
    cameras = trained.orbit(24)
    frames = PagePath(cameras, fps=6.0, closed=True)
    small = {"viewport": {"width": 16, "height": 12}, "reduced_motion": "no-preference"}
    other = open_page(trained, camera_path=frames, context=small)
    flight = "document.body.nerfmac.flight"
    other.wait(f"{flight}?.isPlaying && {flight}.screen.frames.length > 1")
    between = other.run(f"{flight}.viewAt(0.5 / 6.0).pose")
    middle = (cameras[0].pose.astype(float) + cameras[1].pose) / 2
    assert np.abs(np.reshape(between, (3, 4)) - middle).max() < 0.01
    axes = np.reshape(between, (3, 4))[:, :3]
    assert np.abs(axes.T @ axes - np.eye(3)).max() < 1e-6
    last = np.reshape(other.run(f"{flight}.viewAt(23.5 / 6).pose"), (3, 4))[:, 3]
    assert np.abs(last - (cameras[23].pose + cameras[0].pose)[:, 3] / 2).max() < 0.01, "it closes"
    for seconds, camera in ((0, cameras[0]), (2, cameras[12]), (25 / 6, cameras[1])):
        pose = other.run(f"{flight}.viewAt({seconds} + 1e-9).pose")
        assert np.abs(np.reshape(pose, (3, 4)) - camera.pose).max() < 1e-4
    other.page.keyboard.press("KeyR")
    other.wait(f"!{flight}.isPlaying")
    assert np.abs(np.reshape(other.view()["pose"], (3, 4)) - cameras[0].pose).max() < 1e-5
    for stop in ("document.querySelectorAll('.nerfmac-play')[1].click()", None):
        other.run("document.querySelector('.nerfmac-play').click()")
        other.wait(f"{flight}.isPlaying")
        if stop:
            other.run(stop)
        else:
            other.run("document.getElementById('image').focus()")
            other.page.keyboard.press("KeyW")
        other.wait(f"!{flight}.isPlaying")
    other.close()


@pytest.mark.parametrize("is_path", [True, False])
def test_nothing_moves_for_readers_who_want_no_motion(trained, open_page, is_path):
    frames = PagePath(trained.orbit(4), fps=6.0) if is_path else None
    calm = {"viewport": {"width": 16, "height": 12}, "reduced_motion": "reduce"}
    other = open_page(trained, camera_path=frames, context=calm)
    other.rest()
    flight = "document.body.nerfmac.flight"
    assert not other.run(f"{flight}.isPlaying")
    # It also does not sway where moving images would be coarse.
    other.run(f"{flight}.screen.pace.whole = 1e-3, {flight}.sway()")
    other.wait(f"!{flight}.isPlaying")
    assert other.run(f"{flight}.view === {flight}.home")
    other.close()


def test_the_page_sways_around_its_first_view_until_it_is_touched(trained, open_page):
    moving = {"viewport": {"width": 240, "height": 120}, "reduced_motion": "no-preference"}
    other = open_page(trained, context=moving)
    flight = "document.body.nerfmac.flight"
    other.wait(f"{flight}?.screen")
    home = View.initial(trained.scene.cameras("train"), trained.scene.up)
    fast = "{ get: () => true, configurable: true }"  # whatever the machine of the test computes
    other.run(f"Object.defineProperty({flight}.screen, 'isFast', {fast}), {flight}.sway()")
    other.wait(f"{flight}.isSwaying && {flight}.view !== {flight}.home")
    for _ in range(3):
        pose = np.reshape(other.view()["pose"], (3, 4))
        assert np.linalg.norm(pose[:, 3] - home.center) == pytest.approx(home.distance, rel=1e-4)
        assert pose[:, 2] @ home.pose[:, 2] > np.cos(0.15)
    other.page.mouse.move(60, 80)
    other.page.mouse.down()
    other.wait(f"!{flight}.isPlaying")
    other.page.mouse.up()
    other.wait(f"!{flight}.screen.isMoving")
    other.close()


def test_a_turned_phone_shows_the_last_image_until_the_next_one(trained, open_page):
    other = open_page(trained, context={"viewport": {"width": 12, "height": 24}})
    other.rest()
    size = "(({ width, height }) => [width, height])(document.querySelector('canvas'))"
    assert other.run(size) == [12, 24]
    screen = "document.body.nerfmac.flight.screen"
    other.run(f"{screen}.isRunning = true")  # no image is computed
    other.page.set_viewport_size({"width": 24, "height": 12})
    other.wait("document.body.nerfmac.flight.size[0] === 24")
    assert other.run(size) == [12, 24], "a canvas of another size is empty"
    other.run(f"{screen}.isRunning = false, {screen}.wake()")
    other.rest()
    assert other.run(size) == [24, 12]
    other.close()


@pytest.mark.parametrize("radius", [None, 0.1, 0.9])
def test_a_narrow_page_of_a_scene_with_surroundings_shows_no_more_than_the_photos(trained, radius):
    view = View.initial(trained.scene.cameras("train"), trained.scene.up)
    subject = radius and Sphere(tuple(view.center), radius * view.distance)
    run = replace(trained, scene=replace(trained.scene, subject=subject, extent=4.0))
    side = scene_page._side(view, run)
    wide, narrow = (scene_page.still_camera(view, side, *size) for size in ((90, 60), (60, 90)))
    assert narrow.lens.fl_y / 90 == pytest.approx(wide.lens.fl_y / 60 * min(1.0, 60 / 90 / side))
    x, y = run.scene.cameras("train")[0].lens.tangents
    assert side <= 0.6 * min(x / y, y / x)
    if radius == 0.1:  # The subject, a tenth of the distance, is whole on the narrowest page.
        camera = scene_page.still_camera(view, side, 20, 200)
        assert 10 / camera.lens.fl_x == pytest.approx(np.tan(np.arcsin(0.115)), rel=1e-6)
