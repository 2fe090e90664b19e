"""`TrainState` to one safetensors file and back.

The arrays are named as in `TrainState.arrays`; the header's metadata hold the numbers beside them
as JSON and the format's version. The file appears whole or not at all.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import mlx.core as mx

from nerfmac.checks import InputError
from nerfmac.files import appearing
from nerfmac.state import TrainState

FORMAT = "nerfmac checkpoint 1"


def save_checkpoint(path: Path, state: TrainState, notes: dict[str, Any]) -> None:
    """Write `state`, and `notes` (JSON values) beside it, to `path`.

    Raises `InputError` if it cannot be written; an older file at `path` is then still there.
    """
    metadata = {
        "format": FORMAT,
        "numbers": json.dumps(state.numbers()),
        "notes": json.dumps(notes),
    }
    with appearing(path) as partial:
        mx.save_safetensors(str(partial), state.arrays(), metadata)
        # MLX does not notice a disk that fills up while it writes.
        _check_length(partial, path)


def load_checkpoint(path: Path, shapes: dict[str, tuple[int, ...]]) -> tuple[TrainState, Any]:
    """The state and the notes in `path`; `shapes` are the parameters' by name.

    Raises `InputError` for a file that is absent, cut short, of another format or of another
    configuration.
    """
    if not path.is_file():
        raise InputError(f"{path} does not exist")
    _check_length(path, path)
    loaded: Any = mx.load(str(path), return_metadata=True)
    arrays, metadata = loaded
    found = metadata.get("format", "no nerfmac checkpoint")
    if found != FORMAT:
        raise InputError(f"{path} is of format {found!r}; this version reads {FORMAT!r}")
    for name, shape in shapes.items():
        got = arrays[f"parameters.{name}"].shape if f"parameters.{name}" in arrays else None
        if got != shape:
            raise InputError(f"{path}: {name} has shape {got}; its configuration says {shape}")
    try:
        state = TrainState.of(arrays, json.loads(metadata["numbers"]))
        return state, json.loads(metadata["notes"])
    except (InputError, KeyError, ValueError) as error:
        raise InputError(f"{path} is not a whole checkpoint: {error}") from error


def _check_length(path: Path, name: Path) -> None:
    """Raise unless the file is as long as its header says; `name` is for the message."""
    size = path.stat().st_size
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(min(length, size)))
        ends = [
            tensor["data_offsets"][1] for key, tensor in header.items() if key != "__metadata__"
        ]
        expected = 8 + length + max(ends, default=0)
    except (struct.error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{name} is not a safetensors file, or cut short in its header") from error
    if size != expected:
        raise InputError(f"{name} is cut short: {size} bytes; its header says {expected}")
