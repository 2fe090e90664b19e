"""While the camera moves, nothing else uses the time of its images."""

import pytest

from nerfmac.app.viewer.open_page import WATCHED_INTERVAL
from nerfmac.app.viewer.pace import MAX_WAIT, MOVING_WAIT, SLICE, Kind, Pace
from tests.app.viewer.test_pace import Device


@pytest.mark.parametrize("kind", [Kind.TRAINED, Kind.RESTING])
def test_images_of_a_resting_camera_do_not_change_the_size_of_those_of_a_moving_one(kind):
    device = Device(5e-7, fixed=0.004)
    before = [device.draw(Kind.WARPED, training=True) for _ in range(20)][-1]
    device.fixed = 0.03
    for _ in range(6):
        device.draw(kind, training=True)
    device.fixed = 0.004
    assert device.draw(Kind.WARPED, training=True) == before


@pytest.mark.parametrize("seconds", [0.8, 5.0])
def test_a_camera_that_begins_to_move_waits_for_no_training_that_an_earlier_image_owes(seconds):
    pace = Pace()
    pace.training_time(0.7, is_moving=False, trained=60.0)
    pace.served(seconds)
    assert pace.training_time(0.7, is_moving=False, trained=60.0) > 0.0
    waited = 0.0
    while slice_ := pace.training_time(0.7, is_moving=True, trained=60.0):
        pace.trained(slice_)
        waited += slice_
    assert waited <= MOVING_WAIT + SLICE[True] < MAX_WAIT


def test_a_page_whose_camera_moves_gets_hardly_any_states(page, monkeypatch):
    page.open(warps=True).settle()
    monkeypatch.setattr("nerfmac.app.viewer.open_page.INTERVAL", 0.0)
    monkeypatch.setitem(WATCHED_INTERVAL, True, 3600.0)
    page.take("state")
    for number in range(8):
        page.turn()
        page.session.notice = f"notice {number}"
        page.work(2)
    assert page.take("state") == []
    page.turn(moving=False).settle()
    assert page.take("state")[-1]["notice"] == "notice 7"
