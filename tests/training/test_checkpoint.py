"""A checkpoint restores the state bit for bit, or raises an error with the reason."""

import errno
import json
import os
import resource
import struct
from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.common.checks import InputError
from nerfmac.ops.loss_scale import LossScale
from nerfmac.training import checkpoint
from nerfmac.training.checkpoint import load_checkpoint, save_checkpoint
from nerfmac.training.state import TrainState

PARAMETERS = {"table": (40, 2), "density": (7,), "color": (11,)}
CELLS = 64
SHAPES = TrainState.shapes(PARAMETERS, {"values": (CELLS,), "bits": (CELLS // 32,)})
NOTES = {"curve": [[1, 0.5, 12.25]], "ü": "ß"}


def tree(first):
    """Parameters that count on from `first`, each value another, -0.0 among them."""
    values = {}
    for name, shape in PARAMETERS.items():
        size = int(np.prod(shape))
        numbers = np.arange(first, first + size, dtype=np.float32) / 3
        numbers[1] = -0.0
        values[name] = mx.array(numbers.reshape(shape))
        first += size
    return values


@pytest.fixture
def state():
    bits = mx.array([7, 2**32 - 1], mx.uint32)
    sampling = {"values": mx.arange(CELLS).astype(mx.float32), "bits": bits}
    trees = [tree(first) for first in (0, 1000, 2000)]
    scaling = LossScale(mx.array(512.0), *(mx.array(n, mx.int32) for n in (7, 3, 1)))._asdict()
    return TrainState(
        *trees, sampling, scaling, mx.array(3.5), step=17, rays=96, train_seconds=1 / 3
    )


@pytest.fixture
def path(tmp_path, state):
    save_checkpoint(tmp_path / "checkpoint.safetensors", state, NOTES)
    return tmp_path / "checkpoint.safetensors"


def refused(path, *parts):
    with pytest.raises(InputError) as caught:
        load_checkpoint(path, SHAPES)
    for part in (str(path), *parts):
        assert part in str(caught.value), f"{part!r} is not in: {caught.value}"


def with_header(path, change):
    """Change the header of the file at `path`."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    change(header)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + length :])


def test_a_state_and_its_notes_come_back_bit_for_bit(path, state):
    loaded, notes = load_checkpoint(path, SHAPES)
    assert notes == NOTES
    assert (loaded.step, loaded.rays, loaded.train_seconds) == (17, 96, 1 / 3)
    got, want = loaded.arrays(), state.arrays()
    assert got.keys() == want.keys() == SHAPES.keys()
    for name in want:
        assert got[name].dtype == want[name].dtype
        assert np.array(got[name]).tobytes() == np.array(want[name]).tobytes(), name


def test_a_state_is_still_whole_when_its_file_is_written_over(path, state):
    # Arrays are read when they are needed: a run that was loaded saves over its own checkpoint.
    loaded, _ = load_checkpoint(path, SHAPES)
    save_checkpoint(path, loaded, NOTES)
    again, _ = load_checkpoint(path, SHAPES)
    for name, values in state.arrays().items():
        assert np.array(again.arrays()[name]).tobytes() == np.array(values).tobytes(), name


def test_a_file_cut_short_anywhere_is_refused(path):
    whole = path.read_bytes()
    (header,) = struct.unpack("<Q", whole[:8])
    for left in (0, 1, 7, 8, 9, 8 + header // 2, 7 + header, 8 + header, len(whole) - 1):
        path.write_bytes(whole[:left])
        refused(path, "cut short")
    path.write_bytes(struct.pack("<Q", 2**63) + b"{}")
    refused(path, "is cut short: 10 bytes")
    path.write_bytes(whole + b"\0")
    refused(path, "is cut short: ")


@pytest.mark.parametrize("place", [0, 0.5, 1])
def test_one_bit_that_changed_among_the_arrays_is_found(path, place):
    data = bytearray(path.read_bytes())
    (header,) = struct.unpack("<Q", data[:8])
    first, last = 8 + header, len(data) - 1
    data[first + round(place * (last - first))] ^= 1
    path.write_bytes(data)
    refused(path, "damaged")


@pytest.mark.parametrize("tree", ["parameters", "average"])
@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_parameters_that_are_not_finite_are_refused_by_name(path, state, tree, number):
    broken = mx.array(np.array([0, 1, number, 3, 4, 5, 6], np.float32))
    parameters = {**getattr(state, tree), "density": broken}
    save_checkpoint(path, replace(state, **{tree: parameters}), NOTES)
    refused(path, f"{tree}.density", "not finite")


@pytest.mark.parametrize(
    "content",
    [
        b"not a checkpoint at all, only text",
        struct.pack("<Q", 2) + b"[]",
        struct.pack("<Q", 27) + b'{"a": {"data_offsets": []}}',
        struct.pack("<Q", 33) + b'{"a": {"data_offsets": [0, "b"]}}',
        struct.pack("<Q", 31) + b'{"a": {"data_offsets": [0, 0]}}',
    ],
)
def test_what_is_no_checkpoint_is_refused(path, content):
    path.write_bytes(content)
    refused(path, "is not a safetensors file")


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_every_array_must_have_the_shape_that_the_configuration_says(path, name):
    for shapes in ({**SHAPES, name: (*SHAPES[name], 1)}, {**SHAPES, f"{name}s": (2,)}):
        with pytest.raises(InputError, match=rf"{name}s? has shape .*; its configuration requires"):
            load_checkpoint(path, shapes)


@pytest.mark.parametrize("key", ["numbers", "notes"])
def test_what_lies_beside_the_arrays_must_be_whole(path, key):
    whole = path.read_bytes()
    with_header(path, lambda header: header["__metadata__"].pop(key))
    refused(path, "is not a complete checkpoint", key)
    path.write_bytes(whole)
    with_header(path, lambda header: header["__metadata__"].update({key: "{"}))
    refused(path, "is not a complete checkpoint")


CLAIMS = {
    "more than the file": {"shape": [2**40], "data_offsets": [0, 2**42]},
    "more than its bytes": {"shape": [2**40]},
    "no bytes, by overflow": {"shape": [2**31, 2**31], "data_offsets": [0, 0]},
    "less than nothing": {"shape": [-1, 2]},
    "bytes before the file": {"data_offsets": [-8, 0]},
}


@pytest.mark.parametrize("claim", CLAIMS)
def test_an_array_that_claims_terabytes_takes_no_memory(path, claim):
    with_header(path, lambda header: header["samples_per_ray"].update(CLAIMS[claim]))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refused(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**16, "64 MiB"


@pytest.mark.parametrize("length", [2**40, 2**63, 2**64 - 1])
def test_a_header_that_claims_terabytes_is_refused(path, length):
    path.write_bytes(struct.pack("<Q", length) + path.read_bytes()[8:])
    refused(path, "cut short in its header")


def test_a_failure_while_saving_leaves_the_old_file_alone(path, state, monkeypatch):
    before = path.read_bytes()

    def full(name, *_):
        with open(name, "wb") as file:
            file.write(before[:300])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def short(name, *_):  # as in MLX: a full disk does not raise an error
        with open(name, "wb") as file:
            file.write(before[:300])

    for fault, complaint in ((full, "No space left"), (short, "check the free disk space")):
        monkeypatch.setattr(checkpoint.mx, "save_safetensors", fault)
        with pytest.raises(InputError, match=f"{path} cannot be written: .*{complaint}"):
            save_checkpoint(path, state, NOTES)
        assert path.read_bytes() == before
        assert list(path.parent.iterdir()) == [path]
