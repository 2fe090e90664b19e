"""A file is whole or not there; recorded timelines are correct."""

import errno
import json
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nerfmac.common import files
from nerfmac.common.checks import InputError
from nerfmac.common.files import appearing, read_json, write_json
from nerfmac.common.timeline import event, interval, recording
from tests.killed import half_written


@pytest.fixture
def path(tmp_path):
    """A file that is there already."""
    path = tmp_path / "kept.json"
    path.write_text("old")
    return path


def assert_untouched(path):
    assert path.read_text() == "old"
    assert list(path.parent.iterdir()) == [path]


def test_a_file_appears_when_it_is_whole(path):
    with appearing(path) as partial:
        partial.write_text("new, hal")
        assert path.read_text() == "old"
        partial.write_text("new, whole")
    assert path.read_text() == "new, whole"
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("fault", [KeyError, KeyboardInterrupt, SystemExit])
def test_a_fault_while_writing_leaves_the_old_file_alone(path, fault):
    with pytest.raises(fault), appearing(path) as partial:  # noqa: PT012
        partial.write_text("new, hal")
        raise fault
    with pytest.raises(TypeError):
        write_json(path, {"a": object()})
    assert_untouched(path)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO])
def test_a_disk_without_room_is_named_and_leaves_the_old_file_alone(path, number):
    with pytest.raises(InputError) as caught, appearing(path) as partial:  # noqa: PT012
        partial.write_text("new, hal")
        raise OSError(number, os.strerror(number))
    assert str(caught.value) == f"{path} cannot be written: {os.strerror(number)}"
    assert_untouched(path)


def test_a_place_that_cannot_be_written_is_found_out_before_the_work(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path, tmp_path / "nowhere" / "a.json", tmp_path / "file" / "a.json"):
        with pytest.raises(InputError, match=f"{path} cannot be written"), appearing(path):
            pytest.fail("the work was begun")
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [(b"[1,\n{", ", line 2: not valid JSON"), (b"\xff\xfe{}", ", line 1: not valid JSON")],
)
def test_broken_json_is_refused_with_its_name(path, content, complaint):
    path.write_bytes(content)
    with pytest.raises(InputError, match=f"{path}{complaint}"):
        read_json(path)


def test_two_threads_may_write_one_file_at_once(path):
    def write(text):
        with appearing(path) as partial:
            partial.write_text(text)
            return partial

    with appearing(path) as partial, ThreadPoolExecutor(1) as pool:
        partial.write_text("whole")
        assert pool.submit(write, "other").result() != partial
        assert path.read_text() == "other"
    assert path.read_text() == "whole"
    assert list(path.parent.iterdir()) == [path]


def test_only_what_killed_processes_left_is_removed(tmp_path):
    video, other, gif = (
        tmp_path / name for name in ("video [1].mp4", "other.mp4", "video [1].gif")
    )
    abandoned, of_another, of_a_gif = map(half_written, (video, other, gif))
    inner = abandoned.with_name(f".{abandoned.name}")  # it was written on the way to that one
    inner.touch()
    elsewhere = Path(str(abandoned).replace(files._HERE, "another"))  # by another machine
    elsewhere.touch()
    with appearing(video):
        assert not abandoned.exists()
        assert not inner.exists()
    assert set(tmp_path.iterdir()) == {of_another, of_a_gif, elsewhere, video}


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
        thread.join()
    recorded.write(tmp_path / "t.json")
    values = json.loads((tmp_path / "t.json").read_text())
    found = intervals(values)
    assert {name: lane for name, (lane, *_) in found.items()} == {
        "outer": "main",
        "inner": "main",
        "encode": "nerfmac encoder",
    }
    (_, begin, end), (_, inside, ended) = found["outer"], found["inner"]
    assert 0 <= begin <= inside < ended <= end
    assert ended - inside >= 2000
    (outer,) = (each for each in values["traceEvents"] if each["name"] == "outer")
    assert outer["args"] == {"step": 7}
    (seen,) = (each for each in values["traceEvents"] if each["ph"] == "i")
    assert (seen["name"], seen["s"], seen["args"]) == ("seen", "t", {"what": "a"})
    assert ended <= seen["ts"] <= end
    assert recorded.seconds("inner")[0] == pytest.approx((ended - inside) / 1e6)
