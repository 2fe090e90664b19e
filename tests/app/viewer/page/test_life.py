"""Life cycle of a view: without a kernel, with one, next to another view, and removal."""

import pytest

from tests.app.viewer.page.driver import jpeg

ORANGE = (220, 140, 20)


def color_at(view, x, y):
    return pytest.approx(view.pixel(x, y)[:3], abs=12)


def wait_for_color(view, x, y):
    """Wait until something has been drawn."""
    view.page.wait_for_function("([x, y]) => pixelOf('frame', x, y)[0] > 100", arg=[x, y])


def test_without_a_kernel_the_still_is_shown_until_one_speaks(open_view):
    view = open_view(still=jpeg([ORANGE], 40, 40))
    wait_for_color(view, 320, 240)
    assert color_at(view, 90, 240) == list(ORANGE)
    assert view.pixel(70, 240)[:3] == [0x14, 0x16, 0x1A]
    assert view.button("Start training").is_disabled()
    assert view.button("View panel").is_disabled()
    view.drag((200, 200), (300, 200))
    assert view.sent() == []
    view.page.get_by_text("No kernel is connected").wait_for()
    view.live()
    assert view.button("View panel").is_enabled()
    assert view.page.locator(".nerfmac-hint").inner_text() == ""
    view.show(1, [(30, 30, 200)])
    view.run("tell('change:still')")
    view.settle()
    assert color_at(view, 320, 240) == [30, 30, 200]


WATCH_WHAT_RUNS = """() => {
  window.running = new Set();
  const kinds = [["setTimeout", "clearTimeout"], ["setInterval", "clearInterval"],
    ["requestAnimationFrame", "cancelAnimationFrame"]];
  for (const [begin, end] of kinds) {
    const [first, last] = [window[begin], window[end]];
    window[begin] = (task, ...rest) => {
      const run = (...values) => {
        if (begin !== "setInterval") running.delete(`${begin} ${number}`);
        task(...values);
      };
      const number = first(run, ...rest);
      running.add(`${begin} ${number}`);
      return number;
    };
    window[end] = (number) => { running.delete(`${begin} ${number}`); last(number); };
  }
  const observe = ResizeObserver.prototype.observe;
  window.watched = new Set();
  ResizeObserver.prototype.observe = function (...values) {
    watched.add(this);
    observe.apply(this, values);
  };
  const disconnect = ResizeObserver.prototype.disconnect;
  ResizeObserver.prototype.disconnect = function () {
    watched.delete(this);
    disconnect.call(this);
  };
  const listen = window.addEventListener;
  window.signals = [];
  window.addEventListener = (type, handler, options) => {
    const isPlaywrights = new Error().stack.includes("InjectedScript");
    if (!isPlaywrights) signals.push(options?.signal);
    listen.call(window, type, handler, options);
  };
}"""


def test_a_view_that_ends_leaves_nothing_behind(open_view):
    view = open_view()
    view.run("endView()")
    view.run(WATCH_WHAT_RUNS)
    view.open(view.page.url.rsplit("/", 1)[0]).live()
    view.show()
    view.button("View panel").click()
    view.run("document.querySelector('.nerfmac-panel-view .nerfmac-more').open = true")
    view.control("Exposure").fill("1")
    view.page.locator(".nerfmac-image").focus()
    view.page.keyboard.down("w")
    view.page.mouse.move(200, 200)
    view.page.mouse.wheel(0, 50)
    assert view.run("running.size") > 2
    assert view.run("watched.size") > 0
    view.run("endView()")
    view.page.keyboard.up("w")
    assert view.run("[...running, ...watched].length") == 0
    assert view.run("signals.length > 0 && signals.every((each) => each?.aborted)")
    assert view.run("listening()") == 0
    assert view.run("output.childElementCount") == 0
    assert view.moves()["moving"][-1] is False
    view.forget()
    view.frame(2)
    view.run("dispatchEvent(new Event('blur')); output.style.width = '300px'")
    assert view.run("sent") == []
    view.page.reload()
