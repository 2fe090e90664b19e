"""Checkpoints: a `TrainState` stored in one safetensors file.

The arrays have the same names as in `TrainState.arrays`. The metadata in the header contains the
format version, a checksum, and the state's numbers and notes as JSON. If writing fails, no
incomplete file remains.
"""

import json
import math
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

from nerfmac.backend import Arrays, Shapes
from nerfmac.common import Fields, InputError, appearing
from nerfmac.training.state import TrainState

FORMAT = "nerfmac checkpoint 1"

_OBJECTS = ("numbers", "notes", "own")
"""Keys of the metadata that have a JSON object as their value."""

_REPAIR = "restore a copy of the file, or train the run again"


def save_checkpoint(
    path: Path, state: TrainState, notes: dict[str, Any], own: Mapping[str, str] | None = None
) -> None:
    """Write a training state to a checkpoint file.

    Args:
        path: File to write. If writing fails, an existing file is not changed.
        state: Training state.
        notes: JSON values to store with the state.
        own: Names of the user-defined field, sampler, and loss, from `Method.own`.

    Raises:
        InputError: If the file cannot be written.
    """
    metadata = {
        "format": FORMAT,
        "numbers": json.dumps(state.numbers()),
        "notes": json.dumps(notes),
        "own": json.dumps(dict(own or {})),
    }
    arrays = state.arrays()
    mx.eval(arrays)  # evaluated here, so that any failure below is a failure to write
    metadata["checksum"] = _checksum(arrays, metadata)
    with appearing(path) as partial:
        try:
            mx.save_safetensors(str(partial), arrays, metadata)
        except RuntimeError as error:
            raise InputError(
                f"{path} cannot be written: {error}; check the free disk space"
            ) from error
        # If the disk is full, MLX may write an incomplete file without an error.
        if fault := _length_fault(partial):
            raise InputError(f"{path} cannot be written: it {fault}; check the free disk space")


def load_checkpoint(
    path: Path, shapes: Shapes, own: Mapping[str, str] | None = None
) -> tuple[TrainState, Any]:
    """Read and verify a checkpoint file.

    Args:
        path: File to read.
        shapes: Expected shapes of the arrays, keyed by name.
        own: Names of the user-defined field and sampler of this run.

    Returns:
        Training state, and the notes that were stored with the state.

    Raises:
        InputError: If the file is missing, truncated, damaged, or in another format, if it was
            saved with another configuration, field, or sampler, or if it contains a parameter that
            is not finite.
    """
    if not path.is_file():
        raise InputError(f"{path} does not exist")
    if fault := _length_fault(path):
        raise InputError(f"{path} {fault}")
    try:
        loaded: Any = mx.load(str(path), return_metadata=True)
    except (RuntimeError, ValueError) as error:
        raise InputError(f"{path} is not a safetensors file: {error}") from error
    arrays, metadata = loaded
    written = metadata.get("format", "no nerfmac checkpoint")
    if written != FORMAT:
        raise InputError(f"{path} has the format {written!r}; this version reads {FORMAT!r}")
    is_damaged = metadata.get("checksum") != _checksum(arrays, metadata)
    numbers, notes, trained = (_object(path, name, metadata) for name in _OBJECTS)
    _check_own(path, trained, dict(own or {}))
    if unknown := sorted(arrays.keys() - shapes.keys()):
        raise InputError(f"{path} contains {unknown[0]}, but its configuration does not use it")
    for name, shape in shapes.items():
        got = arrays[name].shape if name in arrays else None
        if got != shape:
            raise InputError(f"{path}: {name} has shape {got}; its configuration requires {shape}")
    # The names in the file are sorted. MLX would trace compiled functions again if the order of the
    # arrays changed, so the original order is restored.
    arrays = {name: arrays[name] for name in shapes}
    try:
        state = TrainState.of(arrays, numbers)
    except InputError as error:
        raise InputError(f"{path} is not a complete checkpoint: {error}") from error
    if is_damaged:
        raise InputError(f"{path} is damaged: its checksum does not match; {_REPAIR}")
    for name, values in arrays.items():
        if name.startswith(("parameters.", "average.")) and not np.isfinite(values).all():
            raise InputError(f"{path}: {name} has values that are not finite; {_REPAIR}")
    return state, notes


def _object(path: Path, name: str, metadata: Mapping[str, str]) -> dict[str, Any]:
    """Return the JSON object `name` from the metadata. Raises `InputError` if the JSON is
    invalid."""
    try:
        values = json.loads(metadata[name])
    except (KeyError, ValueError, RecursionError) as error:
        raise InputError(f"{path} is not a complete checkpoint: {name}: {error}") from error
    return dict(Fields.of(values, f"{path}: {name}").values)


def _checksum(arrays: Arrays, metadata: Mapping[str, str]) -> str:
    """Return a CRC-32 in hexadecimal, computed from the numbers and from the bytes of all arrays,
    sorted by name."""
    checksum = zlib.crc32(metadata.get("numbers", "").encode())
    for name in sorted(arrays):
        checksum = zlib.crc32(np.ascontiguousarray(arrays[name]).data, checksum)
    return f"{checksum:08x}"


def _check_own(path: Path, trained: dict[str, str], own: dict[str, str]) -> None:
    for part in ("field", "sampler"):  # the loss has no arrays in the state
        if trained.get(part) == own.get(part):
            continue
        if part in trained:
            raise InputError(
                f"{path} was trained with a custom {part}, {trained[part]}; pass it with "
                f"method=nerfmac.Method({part}=...)"
            )
        raise InputError(f"{path} was trained with the configured {part}, not with {own[part]}")


def _length_fault(path: Path) -> str | None:
    """Compare the size of a safetensors file with the size that its header specifies.

    Return a description of the difference, or None if the sizes match.
    """
    size = path.stat().st_size
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(min(length, size)))
        tensors = [tensor for key, tensor in header.items() if key != "__metadata__"]
        ends = [tensor["data_offsets"][1] for tensor in tensors]
        expected = 8 + length + max(ends, default=0)
        counts = [math.prod(tensor["shape"]) for tensor in tensors]
        sides = [side for tensor in tensors for side in tensor["shape"]]
        # MLX computes each axis length with 32 bits and their product with 64 bits. Both can
        # overflow.
        is_too_large = max(counts, default=0) > expected or min(sides, default=0) < 0
    except (struct.error, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return "is not a safetensors file, or cut short in its header"
    if size != expected:
        return f"is cut short: {size} bytes of {expected}"
    return "claims an array that is larger than the file" if is_too_large else None
