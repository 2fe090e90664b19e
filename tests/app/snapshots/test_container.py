"""A snapshot's file that would need far more memory than it has bytes is refused."""

import gzip
import re
import struct
import tracemalloc
import zlib
from contextlib import contextmanager

import msgpack
import pytest

from nerfmac.app.snapshots import reading
from nerfmac.app.snapshots.reading import read_container
from nerfmac.common.checks import InputError


@contextmanager
def needing_less_than(most):
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("compress", [zlib.compress, gzip.compress])
def test_a_file_that_inflates_without_measure_is_refused(tmp_path, monkeypatch, compress):
    monkeypatch.setattr(reading, "LEAST_LIMIT", 2**20)
    data = compress(msgpack.packb({"snapshot": bytes(2**26)}))
    path = tmp_path / "bomb.ingp"
    path.write_bytes(data)
    told = f"^{re.escape(str(path))} has {len(data)} bytes"
    with needing_less_than(2**24), pytest.raises(InputError, match=told):
        read_container(path)


@pytest.mark.parametrize("lists", [1, 2**7])
def test_a_file_of_more_values_than_a_snapshot_lists_is_refused(tmp_path, monkeypatch, lists):
    monkeypatch.setattr(reading, "MOST_VALUES", 2**14)
    empty = b"\x90" * (2**20 // lists)
    one = b"\xdd" + struct.pack(">I", len(empty)) + empty
    path = tmp_path / "many.msgpack"
    path.write_bytes(b"\xdd" + struct.pack(">I", lists) + one * lists)
    with needing_less_than(2**24), pytest.raises(InputError, match=r"many\.msgpack"):
        read_container(path)


@pytest.mark.parametrize("compress", [zlib.compress, gzip.compress])
def test_either_compression_is_read_and_a_cut_one_refused(tmp_path, compress):
    values = {"snapshot": {"params_binary": bytes(range(256)) * 64}}
    data = compress(msgpack.packb(values))
    path = tmp_path / "scene.ingp"
    path.write_bytes(data)
    assert read_container(path).values == values
    path.write_bytes(data[:-20])
    with pytest.raises(InputError, match=r"scene\.ingp is truncated"):
        read_container(path)
