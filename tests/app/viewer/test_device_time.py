"""Training and viewing each get their part of the device's time."""

import numpy as np
import pytest

from nerfmac.app.viewer.loop import DeviceTime


@pytest.mark.parametrize("share", [0.0, 0.3, 0.7, 0.95])
def test_training_gets_its_share_whatever_a_slice_takes(share):
    rng = np.random.default_rng(5)
    account, spent = DeviceTime(), {True: 0.0, False: 0.0}
    for _ in range(4000):
        training = not account.viewing_is_due(share)
        seconds = rng.uniform(0.005, 0.02) if training else rng.uniform(0.02, 0.06)
        account.spend(seconds, training=training)
        spent[training] += seconds
    assert spent[True] / sum(spent.values()) == pytest.approx(share, abs=0.05)


def test_what_was_long_ago_gives_no_claim():
    account = DeviceTime()
    account.spend(100.0, training=True)
    taken = 0
    while account.viewing_is_due(0.5):
        account.spend(0.1, training=False)
        taken += 1
    assert taken < 20
