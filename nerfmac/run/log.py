"""What the log says of a run: what computes it, and the memory that this takes."""

from __future__ import annotations

import logging

import mlx.core as mx

from nerfmac.backend import backend, references
from nerfmac.backend.memory import peak_memory_bytes

log = logging.getLogger("nerfmac")


def log_how(build_seconds: float) -> None:
    """Log which operations run as kernels, once all is compiled, and the memory taken so far."""
    log.debug("kernels run as %s; compiling took %.1f s in all", backend(), build_seconds)
    operations: dict[str, list[str]] = {}
    for operation, why in references().items():
        operations.setdefault(why, []).append(operation)
    for why, names in operations.items():
        log.info("as reference, by plain MLX operations, run %s: %s", ", ".join(names), why)
    log_memory("after compiling")


def log_memory(when: str) -> None:
    """Log the memory that MLX holds now, and the most that there was."""
    active, peak = mx.get_active_memory(), peak_memory_bytes()
    log.debug("memory %s: %.0f MB active, %.0f MB at most", when, active / 1e6, peak / 1e6)
