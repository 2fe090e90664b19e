"""The training panel shows the progress, starts and pauses training, and draws its curves."""

import pytest

CURVE = [[0, 0.0, 0.2, 9.0], [100, 1.5, 0.02, 19.0], [200, 6.0, 0.002, 29.0]]


@pytest.fixture
def panel(view):
    """The training panel, open."""
    view.button("Training panel").click()
    view.page.locator(".nerfmac-panel-training .nerfmac-more summary").click()
    view.forget()
    return view


def test_the_end_of_training_and_the_quality_of_new_views_are_told_in_words(view):
    summary = view.page.locator(".nerfmac-summary")
    done = {"is_running": False, "has_finished": True, "step": 9000}
    view.state(training=done, held_out=None)
    assert summary.inner_text() == "Training has finished."
    view.state(training=done, held_out=None, measured=[2, 3])
    assert summary.inner_text() == "Training has finished. Comparing new views: 2 of 3 …"
    view.state(training=done)
    words = "New views: good (25.0 dB, 3 of 9 held-out views)"
    assert summary.inner_text() == f"Training has finished. {words}"
    assert "not used for training, at step 9\u2009000" in summary.get_attribute("title")
    view.state(training={"step": 9000})
    assert summary.inner_text() == words, "a saved run"
    view.state(training={"step": 9000, "is_running": True})
    assert summary.inner_text() == "step 9\u2009000 · 27.3 dB in training"


def test_what_a_newcomer_does_not_need_is_in_a_closed_section(view):
    view.button("Training panel").click()
    assert view.page.locator("dd[data-name=left]").is_visible()
    rare = ["dd[data-name=step]", "canvas.nerfmac-curve", "[aria-label='Stop after steps']"]
    assert not any(view.page.locator(each).is_visible() for each in rare)
    view.page.locator(".nerfmac-panel-training .nerfmac-more summary").click()
    assert all(view.page.locator(each).is_visible() for each in rare)


def test_one_button_starts_and_pauses(view):
    view.state(training={"step": 0})
    view.button("Start training").click()
    view.state(training={"is_running": True})
    view.button("Pause training").click()
    view.state(training={"is_running": False, "step": 8})
    view.button("Continue training").click()
    assert [each["kind"] for each in view.sent()] == ["train", "pause", "train"]


def readout(view, part):
    """The text of the chart at a fraction of its width."""
    box = view.page.locator("canvas.nerfmac-curve").bounding_box()
    view.page.mouse.move(box["x"] + part * box["width"], box["y"] + 60)
    return view.page.locator(".nerfmac-readout").inner_text()


def test_the_curve_is_read_at_the_nearest_point_and_points_are_appended_or_replace_all(panel):
    panel.say({"kind": "curve", "fresh": True, "points": CURVE[:2]})
    panel.say({"kind": "curve", "fresh": False, "points": CURVE[2:]})
    assert readout(panel, 0.95) == "step 200 · 6.0 s · 0.002 · 29 dB"
    assert readout(panel, 0.56) == "step 100 · 1.5 s · 0.02 · 19 dB"
    panel.say({"kind": "curve", "fresh": True, "points": [[700, 9.0, 0.1, 10.0]]})
    assert readout(panel, 0.2).startswith("step 700 ")
    panel.page.mouse.move(5, 5)
    assert panel.page.locator(".nerfmac-readout").inner_text() == ""
