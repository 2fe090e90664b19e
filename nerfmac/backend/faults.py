"""What MLX says when a GPU gives up: a `RuntimeError`, whose text alone tells why.

The texts are MLX's (its allocators and mlx/backend/metal/device.cpp, as the libraries of 0.32.4
hold them), followed on Metal by those of macOS's IOGPU and on CUDA by the runtime's. An error may
come with a later call than the one that failed. MLX's CPU back end says nothing: a process that
gets no memory from it dies.
"""

from __future__ import annotations

NO_MEMORY = (
    "[malloc] Unable to allocate ",  # Metal and CUDA
    "[metal::malloc] Attempting to allocate ",  # more than one buffer may have
    "[metal::malloc] Resource limit (",  # too many buffers
    "Insufficient Memory",  # a launch on Metal, kIOGPUCommandBufferCallbackErrorOutOfMemory
    " failed: out of memory",  # a call of CUDA
)
"""Parts of the texts that say that there is no memory left."""

ENDED = (
    "Impacting Interactivity",  # it held up the display (ml-explore/mlx issue 3267)
    "Caused GPU Timeout Error",
    "Caused GPU Hang Error",
    "Ignored (for causing prior/excessive GPU errors)",  # what follows one of those
    " failed: the launch timed out and was terminated",  # CUDA, on a GPU that has a display
)
"""Parts of the texts that say that the system has ended the GPU's work."""


def is_out_of_memory(error: RuntimeError) -> bool:
    """Whether MLX's `error` says that there was no memory left."""
    return any(sign in str(error) for sign in NO_MEMORY)


def is_ended(error: RuntimeError) -> bool:
    """Whether MLX's `error` says that the system has ended the GPU's work."""
    return any(sign in str(error) for sign in ENDED)


def in_words(error: RuntimeError) -> str | None:
    """What happened and what to do, where MLX's `error` is one of these; None where it is not."""
    if is_out_of_memory(error):
        return f"no memory is left: {error}"
    if is_ended(error):
        return (
            f"the system ended the GPU's work, as it does where a display waits too long: {error}; "
            "with the display asleep, or over ssh, it leaves more time"
        )
    return None
