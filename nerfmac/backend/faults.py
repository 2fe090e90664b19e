"""Classification of MLX errors after a GPU failure, by the message of the `RuntimeError`.

If a threadgroup is too large, MLX raises a `ValueError` instead.

The messages are from MLX 0.32.4 (its allocators and mlx/backend/metal/device.cpp). On Metal, a
message contains text from the macOS framework IOGPU. On CUDA, it contains text from the CUDA
runtime. The error may be raised by a later call than the one that failed. If memory runs out on a
CPU, MLX raises no error, because the system ends the process.
"""

from __future__ import annotations

NO_MEMORY = (
    "[malloc] Unable to allocate ",  # Metal and CUDA
    "[metal::malloc] Attempting to allocate ",  # larger than the maximum buffer size
    "[metal::malloc] Resource limit (",  # too many buffers
    "Insufficient Memory",  # launch on Metal, kIOGPUCommandBufferCallbackErrorOutOfMemory
    " failed: out of memory",  # raised by a CUDA function
)
"""Phrases in MLX errors that indicate a lack of memory."""

ENDED = (
    "Impacting Interactivity",  # the launch delayed the display (ml-explore/mlx issue 3267)
    "Caused GPU Timeout Error",
    "Caused GPU Hang Error",
    "Ignored (for causing prior/excessive GPU errors)",  # follows one of the errors above
    " failed: the launch timed out and was terminated",  # CUDA, on a GPU with a display attached
)
"""Phrases in MLX errors that indicate that the operating system stopped GPU work."""

TOO_MANY_THREADS = "maximum allowed threads per threadgroup"
"""Phrase in the `ValueError` for a threadgroup that is too large for a kernel."""

DISCARDED = "Discarded (victim of GPU error/recovery)"
"""Phrase in the error for a launch that macOS discarded because other GPU work had failed."""


def is_out_of_memory(error: RuntimeError) -> bool:
    """Return whether MLX raised `error` because of a lack of memory."""
    return any(sign in str(error) for sign in NO_MEMORY)


def is_ended_by_macos(error: RuntimeError) -> bool:
    """Return whether `error` means that macOS stopped GPU work, so that the process can continue.

    The corresponding error on CUDA is not included, because all later CUDA calls would fail.
    """
    text = str(error)
    return "[METAL]" in text and any(sign in text for sign in (*ENDED, DISCARDED))


def in_words(error: RuntimeError | ValueError) -> str | None:
    """Return an explanation of an MLX error, with advice, or None if the error is unknown."""
    if isinstance(error, ValueError):
        if TOO_MANY_THREADS not in str(error):
            return None
        return (
            "a kernel needs more registers than this GPU has for a threadgroup of that size: "
            f"{error}; launch a custom kernel with a smaller `group`, or report the error if you "
            "do not use one"
        )
    if is_out_of_memory(error):
        return f"no memory is left: {error}"
    if any(sign in str(error) for sign in ENDED):
        return (
            f"the system stopped GPU work that delayed the display: {error}; "
            "try again with `--preset small`, over ssh, with the display asleep, or with the "
            "environment variable AGX_RELAX_CDM_CTXSTORE_TIMEOUT=1"
        )
    if DISCARDED in str(error):
        return (
            "macOS discarded GPU work because earlier work failed, possibly of another program: "
            f"{error}; try again"
        )
    return None
