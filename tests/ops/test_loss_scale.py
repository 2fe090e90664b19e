"""The loss scale is halved when a step is skipped and doubled after many good steps."""

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.common import LOSS_SCALE_GROWTH_INTERVAL, LOSS_SCALE_LARGEST, LOSS_SCALE_SMALLEST
from nerfmac.ops.loss_scale import LossScale, next_loss_scale

GOOD, BAD = 3e38, float("inf")

pytestmark = pytest.mark.usefixtures("run_by")


def after(state: LossScale, *totals: float) -> LossScale:
    for total in totals:
        state, unscale = next_loss_scale(before := state, mx.array(total))
        assert unscale.item() == (1 / before.scale.item() if total == GOOD else 0.0)
    return state


def numbers(scale: LossScale) -> list[float]:
    assert all(each.shape == () for each in scale)
    return [each.item() for each in scale]


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_a_skipped_step_halves_the_scale_down_to_its_least(bad):
    scale = after(LossScale.init(1024.0), GOOD, bad, bad)
    assert numbers(scale) == [256.0, 0, 2, 2]
    assert numbers(after(scale, GOOD)) == [256.0, 1, 2, 0]
    lowest = after(LossScale.init(LOSS_SCALE_SMALLEST), bad)
    assert numbers(lowest) == [LOSS_SCALE_SMALLEST, 0, 1, 1]


def test_many_good_steps_in_a_row_double_the_scale_up_to_its_most():
    nearly = mx.array(LOSS_SCALE_GROWTH_INTERVAL - 1)
    scale = LossScale.init(1024.0)._replace(good_steps=nearly)
    assert numbers(after(scale, GOOD)) == [2048.0, 0, 0, 0]
    assert numbers(after(scale, BAD, GOOD)) == [512.0, 1, 1, 0]
    top = scale._replace(scale=mx.array(LOSS_SCALE_LARGEST))
    assert numbers(after(top, GOOD)) == [LOSS_SCALE_LARGEST, 0, 0, 0]
