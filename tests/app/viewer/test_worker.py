"""One thread does everything, in order and in slices, and outlives whatever goes wrong."""

import threading
import time

import numpy as np
import pytest

from nerfmac.app.viewer.worker import Worker


@pytest.fixture
def worker():
    made = Worker()
    yield made
    made.end()


class Counting:
    """Counts its slices of work; each returns `pause`."""

    def __init__(self, pause):
        self.pause, self.slices, self.threads = pause, 0, set()
        self.happened = threading.Event()
        self.times = []

    def work(self):
        self.slices += 1
        self.times.append(time.monotonic())
        self.threads.add(threading.current_thread())
        self.happened.set()
        return self.pause

    def has_worked(self):
        """Wait for a slice of work since the last call."""
        happened = self.happened.wait(5.0)
        self.happened.clear()
        return happened


def test_tasks_run_in_order_on_one_thread_that_is_not_the_callers(worker):
    seen = []
    futures = [
        worker.submit(lambda i=i: seen.append((i, threading.current_thread()))) for i in range(50)
    ]
    for future in futures:
        future.result(5.0)
    assert [i for i, _ in seen] == list(range(50))
    assert {thread for _, thread in seen} == {worker.submit(threading.current_thread).result(5.0)}
    assert threading.current_thread() not in {thread for _, thread in seen}


def test_an_activity_that_asks_for_no_more_gets_none_until_it_is_woken(worker):
    activity = Counting(None)
    worker.add(activity)
    assert activity.has_worked()
    for _ in range(3):  # after each the worker looks for work again
        worker.submit(lambda: None).result(5.0)
    assert activity.slices == 1
    worker.wake(activity)
    assert activity.has_worked()
    worker.submit(lambda: None).result(5.0)
    assert activity.slices == 2


def test_an_activity_works_again_after_the_pause_it_asked_for(worker):
    activity = Counting(0.02)
    worker.add(activity)
    assert activity.has_worked()
    assert activity.has_worked()
    assert np.diff(activity.times)[0] >= 0.02


def test_activities_that_never_rest_work_alternately_and_leave_room_for_tasks(worker):
    one, other = Counting(0.0), Counting(0.0)
    worker.add(one)
    worker.add(other)
    end = time.monotonic() + 5.0
    while min(one.slices, other.slices) < 20 and time.monotonic() < end:
        time.sleep(0.001)
    counts = worker.submit(lambda: (one.slices, other.slices)).result(5.0)
    assert min(counts) >= 20
    assert abs(counts[0] - counts[1]) <= 1
    assert one.threads == other.threads


def test_an_activity_that_was_removed_has_worked_for_the_last_time(worker):
    activity = Counting(0.0)
    worker.add(activity)
    assert activity.has_worked()
    slices = []
    worker.remove(activity, lambda: slices.append(activity.slices))
    worker.wake(activity)  # of one that is gone
    for _ in range(3):
        worker.submit(lambda: None).result(5.0)
    assert [activity.slices] == slices


def test_an_activity_that_fails_is_given_up_and_the_others_go_on(worker, caplog):
    class Failing:
        def work(self):
            raise ZeroDivisionError("on purpose")

    well = Counting(None)
    worker.add(Failing())
    worker.add(well)
    assert well.has_worked()
    worker.wake(well)
    assert well.has_worked()
    assert caplog.text.count("ZeroDivisionError: on purpose") == 1
