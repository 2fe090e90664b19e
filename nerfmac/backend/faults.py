"""MLX's errors when a GPU fails: only the text of the `RuntimeError` tells the reason.

A threadgroup that is too large is a `ValueError`.

The texts are those of MLX 0.32.4 (its allocators and mlx/backend/metal/device.cpp), followed on
Metal by texts of macOS's IOGPU and on CUDA by the runtime's. A later call than the failed one may
raise the error. MLX's CPU back end raises nothing: a process that gets no memory dies.
"""

from __future__ import annotations

NO_MEMORY = (
    "[malloc] Unable to allocate ",  # Metal and CUDA
    "[metal::malloc] Attempting to allocate ",  # more than one buffer may have
    "[metal::malloc] Resource limit (",  # too many buffers
    "Insufficient Memory",  # a launch on Metal, kIOGPUCommandBufferCallbackErrorOutOfMemory
    " failed: out of memory",  # a call of CUDA
)
"""Phrases by which MLX's errors for lack of memory are recognized."""

ENDED = (
    "Impacting Interactivity",  # it delayed the display (ml-explore/mlx issue 3267)
    "Caused GPU Timeout Error",
    "Caused GPU Hang Error",
    "Ignored (for causing prior/excessive GPU errors)",  # follows one of the above
    " failed: the launch timed out and was terminated",  # CUDA, on a GPU that has a display
)
"""Phrases by which errors for work that the operating system ended are recognized."""

TOO_MANY_THREADS = "maximum allowed threads per threadgroup"
"""Part of the text of the `ValueError` for a threadgroup that is too large for a kernel."""

DISCARDED = "Discarded (victim of GPU error/recovery)"
"""Part of the text of the error for work that macOS drops because other work on the GPU failed."""


def is_out_of_memory(error: RuntimeError) -> bool:
    """Whether MLX raised `error` for lack of memory."""
    return any(sign in str(error) for sign in NO_MEMORY)


def is_ended_by_macos(error: RuntimeError) -> bool:
    """Whether macOS ended the GPU's work, after which a process can continue.

    After the same error on CUDA no further call succeeds.
    """
    text = str(error)
    return "[METAL]" in text and any(sign in text for sign in (*ENDED, DISCARDED))


def in_words(error: RuntimeError | ValueError) -> str | None:
    """An explanation of MLX's `error` with advice; None for other errors."""
    if isinstance(error, ValueError):
        if TOO_MANY_THREADS not in str(error):
            return None
        return (
            "a kernel needs more registers than this GPU has for a threadgroup of that size: "
            f"{error}; launch your own kernel with a smaller `group`, or report the error if you "
            "have none"
        )
    if is_out_of_memory(error):
        return f"no memory is left: {error}"
    if any(sign in str(error) for sign in ENDED):
        return (
            f"the system ended the GPU's work, since the display waited too long: {error}; "
            "try again with `--preset small`, over ssh, with the display asleep, or with the "
            "environment variable AGX_RELAX_CDM_CTXSTORE_TIMEOUT=1"
        )
    if DISCARDED in str(error):
        return (
            "macOS dropped the GPU's work, since work before it failed, perhaps another program's: "
            f"{error}; try again"
        )
    return None
