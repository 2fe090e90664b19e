"""Recorded timelines are correct and in Chrome's format; outside of a recording, they are empty."""

import json
import os
import threading
import time

import pytest

from nerfmac.common.timeline import event, interval, recording


def intervals(values):
    """Return the lane and the ends in microseconds of each interval; keys are names."""
    lanes = {e["tid"]: e["args"]["name"] for e in values["traceEvents"] if e["ph"] == "M"}
    for each in values["traceEvents"]:
        assert (each["pid"], each["tid"] in lanes) == (os.getpid(), True)
    return {
        each["name"]: (lanes[each["tid"]], each["ts"], each["ts"] + each["dur"])
        for each in values["traceEvents"]
        if each["ph"] == "X"
    }


def test_intervals_nest_last_and_stand_in_their_threads_lane(tmp_path):
    def elsewhere():
        with interval("encode"):
            time.sleep(0.002)

    with recording() as recorded:
        thread = threading.Thread(target=elsewhere, name="nerfmac encoder")
        with interval("outer", step=7):
            thread.start()
            with interval("inner"):
                time.sleep(0.002)
            event("seen", what="a")
        with interval("kernel", lane="kernels"):
            pass
        thread.join()
    recorded.write(tmp_path / "t.json")
    values = json.loads((tmp_path / "t.json").read_text())
    found = intervals(values)
    assert {name: lane for name, (lane, *_) in found.items()} == {
        "outer": "main",
        "inner": "main",
        "encode": "nerfmac encoder",
        "kernel": "kernels",
    }
    (_, begin, end), (_, inside, ended) = found["outer"], found["inner"]
    assert 0 <= begin <= inside < ended <= end
    assert ended - inside >= 2000
    assert end <= found["kernel"][1]
    (outer,) = (each for each in values["traceEvents"] if each["name"] == "outer")
    assert outer["args"] == {"step": 7}
    (seen,) = (each for each in values["traceEvents"] if each["ph"] == "i")
    assert (seen["name"], seen["s"], seen["args"]) == ("seen", "t", {"what": "a"})
    assert ended <= seen["ts"] <= end
    assert recorded.seconds("inner")[0] == pytest.approx((ended - inside) / 1e6)


def test_outside_of_a_recording_nothing_is_made():
    assert interval("a", step=1) is interval("b")
    with interval("a"):
        event("b")
    with recording() as recorded:
        pass
    with interval("a"):
        event("b")
    assert recorded.entries == []


def test_a_recording_in_a_recording_has_its_own_part():
    with recording() as outer:
        with recording() as inner, interval("a"):
            pass
        with interval("b"):
            pass
    assert [each.name for each in inner.entries] == ["a"]
    assert [each.name for each in outer.entries] == ["b"]
