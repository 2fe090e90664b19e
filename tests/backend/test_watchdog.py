"""Work continues after macOS has ended the GPU's work, and only then."""

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.backend import apple, device, to_numpy, watchdog
from nerfmac.backend.watchdog import RETRIES, is_relaxed, resumed, retried
from nerfmac.rendering import tiles
from tests.backend.test_faults import DISCARDED, ENDED, NO_MEMORY, OTHERS

ON_METAL = [text for text in (*ENDED, DISCARDED) if "[METAL]" in text]


@pytest.fixture(autouse=True)
def pauses(monkeypatch):
    monkeypatch.setattr(watchdog, "_is_relaxed", False)
    waited = []
    monkeypatch.setattr(watchdog.time, "sleep", waited.append)
    return waited


def failing(text, *failures):
    """Items 0 to 5 from `first` on; the attempts raise before the items `failures`, in order."""
    left = list(failures)

    def begin(first):
        for item in range(first, 6):
            if left and item == left[0]:
                left.pop(0)
                raise RuntimeError(text)
            yield item

    return begin


@pytest.mark.parametrize("text", ON_METAL)
def test_after_each_text_of_macos_the_remaining_items_follow(text, pauses, caplog):
    assert len(ON_METAL) == 5
    saved = []
    items = list(resumed(failing(text, 0, 2, 2, 2, 5), on_failure=lambda: saved.append(len(saved))))
    assert items == list(range(6))
    assert saved == list(range(5))
    assert pauses == [watchdog.PAUSE] * 5 == [5.0] * 5
    assert is_relaxed()
    messages = [record.getMessage() for record in caplog.records]
    assert all(text in message for message in messages)
    numbers = [message.partition("Attempt ")[2][:6] for message in messages]
    assert numbers == ["1 of 3", "1 of 3", "2 of 3", "3 of 3", "1 of 3"]


def test_a_fourth_failure_in_a_row_is_raised(pauses):
    got = []
    with pytest.raises(RuntimeError, match="Impacting"):
        got.extend(resumed(failing(ON_METAL[0], 2, 2, 2, 2)))
    assert len(pauses) == RETRIES == 3


@pytest.mark.parametrize("text", [*NO_MEMORY, *OTHERS, ENDED[-1]])
def test_other_errors_are_raised_at_once(text, pauses):
    saved = []
    with pytest.raises(RuntimeError) as raised:
        list(resumed(failing(text, 2), on_failure=lambda: saved.append(1)))
    assert str(raised.value) == text
    assert not saved
    assert not pauses
    assert not is_relaxed()


def test_a_single_result_is_computed_again(pauses):
    left, dropped = [ON_METAL[0]], []

    def compute():
        if left:
            raise RuntimeError(left.pop())
        return 7

    assert retried(compute, lambda: dropped.append(1)) == 7
    assert len(dropped) == len(pauses) == 1


def test_launches_are_shorter_afterwards(monkeypatch):
    with device.pretended("metal", 13):
        before = apple.additions_per_launch(floats=True), tiles.Tiles()
        monkeypatch.setattr(watchdog, "_is_relaxed", True)
        after = apple.additions_per_launch(floats=True), tiles.Tiles()
    assert after[0] == pytest.approx(before[0] / 4)
    assert after[1].rays == tiles.LEAST < before[1].rays
    for each in (before[1], after[1]):
        each.rays = 2**16
        each._learn(0.03)
    assert (before[1].rays, after[1].rays) == (2**16, 2**15)


def test_an_array_is_evaluated_before_numpy_reads_it(monkeypatch):
    def fail(*_arrays):
        raise RuntimeError(ON_METAL[0])

    assert to_numpy(mx.arange(3)).tolist() == [0, 1, 2]
    monkeypatch.setattr(mx, "eval", fail)
    monkeypatch.setattr(np, "array", None)
    with pytest.raises(RuntimeError, match="Impacting"):
        to_numpy(mx.arange(3))
