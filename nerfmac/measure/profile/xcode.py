"""A trace of an Apple GPU for Xcode."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import mlx.core as mx

from nerfmac.checks import InputError


def check_capture(path: Path) -> None:
    """Raise `InputError` if no trace of the GPU can be written to `path` here."""
    if not mx.metal.is_available():
        raise InputError("a GPU trace is Metal's; expected an Apple GPU for --gpu-trace")
    if os.environ.get("MTL_CAPTURE_ENABLED") != "1":
        raise InputError("Metal writes a GPU trace only if MTL_CAPTURE_ENABLED=1 is set")
    if path.suffix != ".gputrace":
        raise InputError(f"{path} is no GPU trace's name; expected an ending of .gputrace")
    if path.exists():
        raise InputError(f"{path} exists already; Metal replaces no GPU trace")


@contextmanager
def captured(path: Path) -> Iterator[None]:
    """Record the GPU's work within the block to `path`, for Xcode. See `check_capture`."""
    mx.metal.start_capture(str(path))
    try:
        yield
    finally:
        mx.metal.stop_capture()
