"""Background work is done in order, does not block the caller, and reports errors."""

import threading

import pytest

from nerfmac.app.video.encoding import MAX_WAITING, in_background


def test_items_are_worked_on_in_order_on_another_thread():
    done, threads = [], set()

    def work(item):
        done.append(item)
        threads.add(threading.current_thread())

    with in_background(work) as give:
        for item in range(20):
            give(item)
    assert done == list(range(20))
    assert threading.current_thread() not in threads


def test_the_giver_goes_on_while_one_is_worked_on_but_not_without_end():
    may_go_on, given = threading.Event(), []

    def work(_):
        may_go_on.wait(10.0)

    def give_all():
        with in_background(work) as give:
            for item in range(50):
                give(item)
                given.append(item)

    giver = threading.Thread(target=give_all)
    giver.start()
    while len(given) < MAX_WAITING + 1:
        pass
    giver.join(0.05)
    assert len(given) <= MAX_WAITING + 1, "the queue grows and with it the memory"
    may_go_on.set()
    giver.join(10.0)
    assert len(given) == 50


def test_an_error_reaches_the_giver():
    def work(item):
        if item == 3:
            raise ValueError("no room")

    def give_many():
        with in_background(work) as give:
            for item in range(100):
                give(item)

    with pytest.raises(ValueError, match="no room"):
        give_many()


def test_an_interruption_keeps_what_was_given():
    done = []

    def give_two():
        with in_background(done.append) as give:
            give(1)
            give(2)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        give_two()
    assert done == [1, 2]
