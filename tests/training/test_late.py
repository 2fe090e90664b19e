"""A table's gradient moves it a step later; without late gradients nothing is different."""

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.checks import InputError
from nerfmac.config import RanksConfig
from nerfmac.ranks import ALONE
from nerfmac.ranks.ranks import LARGE
from nerfmac.training.late import Late, Own, late_ones, stepping

LATE = RanksConfig(late=True, words="float32")
SHAPES = {"table": (LARGE // 2, 2), "weights": (LARGE,), "colour": (5,)}


def gradients(seed):
    random = np.random.default_rng(seed)
    return {
        name: mx.array(random.normal(size=shape).astype(np.float32))
        for name, shape in SHAPES.items()
    }


def late():
    """What a rank among others has, of parameters with a table; but it is alone."""
    found = Late(ALONE, LATE, ["table"])
    found.is_on = True
    found.begin(gradients(0))
    return found


def test_only_large_tables_are_late():
    sizes = {"table": LARGE, "coarse": LARGE - 1, "weights": LARGE}
    assert late_ones(sizes, ["table", "coarse"]) == ["table"]


def test_each_step_is_by_the_tables_gradient_of_the_step_before():
    way, before = late(), mx.zeros(SHAPES["table"])
    for step in range(1, 4):
        now = gradients(step)
        # The weight of its own step counts, not that of the step it arrives in.
        by, own = stepping(ALONE, LATE, now, mx.array(0.25 * step), way.sums)
        assert list(by) == list(now)  # in another order a step would be traced again
        for name in ("weights", "colour"):
            assert (np.array(by[name]) == np.array(now[name])).all()
        assert np.array(by["table"]) == pytest.approx(np.array(before), rel=1e-6)
        assert list(Own(*own).gradients) == ["table"]
        way.send(own)
        way.start()
        before = now["table"]


def test_what_was_on_its_way_is_dropped_where_training_begins_again():
    way = late()
    way.send(Own({"table": gradients(1)["table"]}, mx.array(1.0)))
    way.begin(gradients(0))
    by, _ = stepping(ALONE, LATE, gradients(2), mx.array(1.0), way.sums)
    assert not np.array(by["table"]).any()


@pytest.mark.parametrize("end", [Late.end, lambda way: way.begin(gradients(0))])
def test_what_is_on_its_way_is_waited_for_before_ranks_talk_of_other_things(end, monkeypatch):
    way, awaited = late(), []
    way.send(Own({"table": gradients(1)["table"]}, mx.array(1.0)))
    monkeypatch.setattr(mx, "eval", awaited.append)
    sent = way.sums
    end(way)
    assert awaited[0] is sent


def test_one_rank_has_no_late_gradients():
    alone = Late(ALONE, LATE, ["table"])
    alone.begin(gradients(0))
    by, own = stepping(ALONE, LATE, gradients(1), mx.array(1.0), alone.sums)
    assert own == ()
    assert (np.array(by["table"]) == np.array(gradients(1)["table"])).all()


def test_late_gradients_are_those_of_every_step():
    with pytest.raises(InputError, match=r"late goes with ranks\.every 1, not 4"):
        RanksConfig(late=True, every=4)
