"""Memory of the current device: its size, the limit for MLX, and the current use.

On a CPU, the size is the memory that this process may use. If memory runs out on a CPU, no
exception is raised: either the system ends the process, or MLX 0.32.4 ends it when it allocates the
next array.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import mlx.core as mx

from nerfmac.backend.device import current_device
from nerfmac.common import InputError, checks

GIB = 2**30
"""Number of bytes in a gibibyte."""

CACHE_FRACTION, SMALL_CACHE_FRACTION = 1 / 4, 1 / 16
"""Maximum size of MLX's buffer cache, as a fraction of the memory limit, and the same for Macs with
at most `SMALL_MAC` bytes of memory. By default, MLX's cache may grow to the whole memory limit, but
on a Mac, other programs share the memory."""
SMALL_MAC = 8 * GIB

METAL_FRACTION = 0.75
"""Maximum memory for training on a Mac, as a fraction of the working set that Metal recommends.
macOS and other programs share the memory, and more memory would slow training down by swapping."""


def memory_bytes() -> int:
    """Return the GPU memory in bytes or, on a CPU, the memory that this process may use."""
    if current_device() != "cpu":
        info = mx.device_info()  # the keys differ between Metal and CUDA
        for key in ("max_recommended_working_set_size", "total_memory", "memory_size"):
            if key in info:
                return int(info[key])
    return host_memory_bytes()


def training_bytes(limit: int) -> int:
    """Return the memory in bytes that training may use if the memory of MLX is limited to `limit`
    bytes."""
    if current_device() != "metal":
        return limit
    return min(limit, int(METAL_FRACTION * memory_bytes()))


def array_bytes() -> int | None:
    """Return the maximum size in bytes of an array, or None if only the memory limits it."""
    return int(mx.device_info()["max_buffer_length"]) if current_device() == "metal" else None


_limit: int | None = None  # Limit that `limit_memory` has set.


def limit_memory(gib: float | None = None, fraction: float | None = None) -> int:
    """Limit the memory that MLX uses.

    Args:
        gib: Limit in GiB. If it exceeds the memory of the device, that memory is the limit.
        fraction: Limit as a fraction of the memory of the device, instead of `gib`. By default, the
            limit is the whole memory.

    Returns:
        The limit in bytes.

    Raises:
        InputError: If an argument is invalid or both are given.
    """
    global _limit
    if gib is not None and fraction is not None:
        raise InputError(
            "a memory limit and a fraction cannot be used together; remove one of them"
        )
    checks.optional_number("memory fraction", fraction, low=0.01, high=1.0)
    checks.optional_number("memory limit", gib, low=0.01)
    limit = available = memory_bytes()
    if fraction is not None:
        limit = int(fraction * available)
    if gib is not None:
        limit = min(int(gib * GIB), available)
    mx.set_memory_limit(limit)
    is_small = current_device() == "metal" and int(mx.device_info()["memory_size"]) <= SMALL_MAC
    mx.set_cache_limit(int((SMALL_CACHE_FRACTION if is_small else CACHE_FRACTION) * limit))
    _limit = limit
    return limit


def memory_limit() -> int:
    """Return the limit in bytes that `limit_memory` has set. By default, set the whole memory."""
    return limit_memory() if _limit is None else _limit


def active_memory_bytes() -> int:
    """Return the memory in bytes that MLX arrays currently use."""
    return int(mx.get_active_memory())


def peak_memory_bytes() -> int:
    """Return the peak memory use in bytes: of MLX on a GPU, and of this process on a CPU."""
    if current_device() != "cpu":
        return int(mx.get_peak_memory())
    import resource  # not available on Windows, where nerfmac exits with a message before this line

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def host_memory_bytes(root: Path = Path("/")) -> int:
    """Return the host memory in bytes that this process may use.

    The result is the smallest of three limits: the physical memory, the cgroup memory limit
    (cgroups v1 and v2, used by containers), and the remaining address space under `ulimit -v`.
    `root` is the folder that contains /proc and /sys.
    """
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([physical, *_group_limits(root), *_address_space()])


def _group_limits(root: Path) -> Iterator[int]:
    """Yield the memory limits in bytes of this process's control groups and their parents."""
    try:
        lines = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for _, kinds, group in (line.split(":", 2) for line in lines if line.count(":") >= 2):
        if kinds and "memory" not in kinds.split(","):
            continue
        base = root / "sys/fs/cgroup" / ("memory" if kinds else "")
        name = "memory.limit_in_bytes" if kinds else "memory.max"
        inner = base / group.strip("/")
        for folder in (inner, *inner.parents):
            if not folder.is_relative_to(base):
                break
            # In a container, all folders except `base` may be missing. A file may contain `max`.
            with suppress(OSError, ValueError):
                yield int((folder / name).read_text(encoding="utf-8"))


def _address_space() -> Iterator[int]:
    """Yield the remaining address space in bytes if `ulimit -v` limits the address space."""
    try:
        import resource

        mapped = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[0])
    except (ImportError, OSError):
        return
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY:
        yield max(limit - mapped * os.sysconf("SC_PAGE_SIZE"), 0)
