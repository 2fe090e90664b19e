"""`nerfmac view` shows a page of its own, which a browser uses without a notebook."""

import io
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from html import unescape

import numpy as np
import pytest
from PIL import Image

from nerfmac import Goal, Run, load_scene, train
from tests.scene_factory import CONFIG, write_scene

RECORD = "document.querySelector('.nerfmac-viewer')?.nerfmac"
WAIT = 120_000  # milliseconds; machines may be busy


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a scene and a run."""
    place = tmp_path_factory.mktemp("alone")
    scene = write_scene(place / "balls", train=6)
    train(load_scene(scene), config=CONFIG, goal=Goal(steps=60), out=place / "run")
    return place


class Served:
    """`nerfmac view` in a process of its own."""

    def __init__(self, folder, *arguments):
        command = [sys.executable, "-P", "-m", "nerfmac", "view", *map(str, arguments)]
        self.process = subprocess.Popen(
            [*command, "--no-browser"],
            cwd=folder,
            env={**os.environ, "MLX_DEVICE": "cpu"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.address = self.process.stdout.readline().strip()
        assert self.address.startswith("http://"), self.process.stderr.read()
        self.said = []
        while not self.said or "Ctrl-C" not in self.said[-1]:
            self.said.append(self.process.stdout.readline())

    def end(self):
        self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate(timeout=120)
        return self.process.returncode, out, err


@pytest.fixture
def served(folder):
    """Start the command in the folder; it is ended in any case."""
    started = []

    def start(*arguments):
        started.append(Served(folder, *arguments))
        return started[-1]

    yield start
    for each in started:
        each.process.kill()
        with each.process:  # closes its pipes
            pass


def test_who_has_the_token_sees_a_run_that_follows_the_pointer_until_ctrl_c(served, browser):
    view = served("run")
    assert view.address.startswith("http://127.0.0.1:")
    check_refusals(view.address)
    page = browser.new_context(viewport={"width": 700, "height": 500}).new_page()
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(view.address)
    page.wait_for_function(f"() => {RECORD}?.lastFrame?.still", timeout=WAIT)
    assert "token" not in page.url
    height = page.locator(".nerfmac-viewer").bounding_box()["height"]
    assert height == 500, "the viewer fills the window"
    before = page.evaluate(f"{RECORD}.lastFrame.pose")
    page.mouse.move(200, 200)
    page.mouse.down()
    page.mouse.move(280, 200, steps=4)
    page.mouse.up()
    page.wait_for_function(
        f"(before) => {RECORD}.lastFrame.still && {RECORD}.lastFrame.pose[3] !== before[3]",
        arg=before,
        timeout=WAIT,
    )
    page.reload()
    page.wait_for_function(f"() => {RECORD}?.lastFrame?.still", timeout=WAIT)
    after = page.evaluate(f"{RECORD}.lastFrame.pose")
    assert not np.allclose(after, before), "a page that is loaded again shows the same view"
    code, _, err = view.end()
    assert (code, errors) == (0, []), err
    page.get_by_text("nerfmac view has ended").wait_for(timeout=WAIT)
    page.context.close()


def test_a_scene_trains_and_steps_that_are_not_saved_are_saved_at_the_end(served, browser, folder):
    view = served("balls")
    page = browser.new_page()
    page.goto(view.address)
    page.wait_for_function(f"() => {RECORD}?.lastFrame?.step > 0", timeout=WAIT)
    code, out, err = view.end()
    assert code == 0, err
    assert re.search(r"saved the run in runs/balls", out)
    assert Run.load(folder / "runs" / "balls").state.step > 0
    page.close()


def check_refusals(address):
    """A request without the token is refused."""
    open_to_all = address.split("?")[0]
    for refused in (open_to_all, f"{open_to_all}?token=guess", f"{open_to_all}messages"):
        status, text = answer_of(refused)
        assert status == 403
        assert b"prints a new address" in text
    assert answer_of(address)[0] == 200


PAUSES = """
  window.pauses = [];
  const later = window.setTimeout;
  window.setTimeout = (task, delay, ...rest) => {
    const isPause = delay >= 1000 && String(task).includes("show(el");
    if (isPause) window.pauses.push(delay);
    return later(task, isPause ? 5 : delay, ...rest);
  };
"""


def test_a_page_of_a_restarted_server_asks_ever_more_slowly_and_the_log_has_one_line(
    served, browser
):
    first = served("run")
    page = browser.new_page()
    page.add_init_script(PAUSES)
    page.goto(first.address)
    page.wait_for_function(f"() => {RECORD}?.lastFrame", timeout=WAIT)
    page.evaluate("() => (pauses.length = 0)")
    first.end()
    second = served("run", "--port", re.search(r":(\d+)/", first.address)[1])
    page.get_by_text("open the new address").wait_for(timeout=WAIT)
    # Until the second server answers, the page may have asked in vain.
    before = page.evaluate("() => pauses.length")
    page.wait_for_function(
        "(before) => pauses.slice(before).filter((each) => each === 30_000).length > 2", arg=before
    )
    pauses = page.evaluate("() => pauses")
    assert pauses[:5] == [1000, 2000, 4000, 8000, 16000]
    assert set(pauses[5:]) == {30_000}
    _, _, err = second.end()
    assert len(err.splitlines()) == 1
    assert "open the printed address" in err
    page.close()


def check_codes(view):
    """Other devices get an address and a code to scan."""
    assert re.match(r"http://[^/]+:\d+/\?token=", view.address)
    assert re.match(r"http://[^/.]+\.local:\d+/\?token=", view.said[0])
    assert view.said[0].strip().rpartition(":")[2] == view.address.rpartition(":")[2]
    blocks = [line for line in view.said if set(line) & set("█▀▄")]
    assert len(blocks) > 12


def answer_of(address):
    """The status and the content of the answer to a request without a cookie."""
    try:
        with urllib.request.urlopen(address) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def check_preview(address):
    """Follow the tags of a page to its image, as the crawler of a chat does."""
    page = answer_of(address)[1].decode()
    tags = dict(re.findall(r'<meta \w+="([\w:]+)" content="(.*?)">', page))
    assert (tags["og:title"], tags["twitter:card"]) == ("run", "summary_large_image")
    image = unescape(tags["og:image"])
    assert image.partition("stills/")[0] == address.partition("files/")[0]
    assert Image.open(io.BytesIO(answer_of(image)[1])).convert("RGB").size == (1200, 560)
    assert answer_of(image.partition("?")[0])[0] == 403


def test_a_shared_page_has_an_address_and_a_code_and_is_all_that_is_served(served, browser, folder):
    view = served("run", "--lan")
    check_codes(view)
    local = re.sub("//[^:]+:", "//127.0.0.1:", view.address)
    context = browser.new_context(accept_downloads=True)
    page = context.new_page()
    page.goto(local)
    page.get_by_role("button", name="Share panel").click()
    page.get_by_role("button", name="Export a page and show its address").click()
    page.locator("img.nerfmac-code[src^='data:image/svg']").wait_for(timeout=WAIT)
    address = page.locator(".nerfmac-panel-share a").first.get_attribute("href")
    assert address == view.address.replace("/?", "/files/run.html?")
    shared = re.sub("//[^:]+:", "//127.0.0.1:", address)
    file = folder / "runs" / "run.html"
    check_preview(shared)
    assert answer_of(shared.partition("?")[0])[0] == 403
    (folder / "runs" / "secret.html").write_text("secret")
    for name in ("secret.html", "..%2Frun%2Fconfig.json", "%2Fetc%2Fpasswd", "runs%2Frun.html"):
        assert answer_of(shared.replace("run.html", name))[0] in (403, 404)
    page.get_by_role("button", name="Export panel").click()
    with page.expect_download() as loading:
        page.locator(".nerfmac-exported a", has_text="Download run.html").click()
    assert loading.value.suggested_filename == "run.html"
    assert loading.value.path().read_bytes() == file.read_bytes(), "a file without an address"
    with page.expect_popup() as opening:
        page.get_by_role("link", name="Open", exact=True).click()
    opening.value.wait_for_load_state()
    assert opening.value.title() == "run"
    context.close()
