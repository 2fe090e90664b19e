"""The memory that this process may use: the machine's, or less where it has been given a limit.

Where a limit is passed no operation fails: the system ends the process, or MLX's next array on a
CPU does (0.32.4). So what is taken has to be known before.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path


def host_memory_bytes(root: Path = Path("/")) -> int:
    """Bytes that this process may use, of the machine's memory.

    No more than its control group has (a container's memory, Linux's versions 1 and 2), and than
    what `ulimit -v` leaves beside what is mapped already. `root` is where /proc and /sys are.
    """
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([machine, *_group_limits(root), *_address_space()])


def _group_limits(root: Path) -> Iterator[int]:
    """The limits of this process's control groups and of those around them."""
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
            # In a container the group's own folder may be the base itself, and others not be there.
            try:
                yield int((folder / name).read_text(encoding="utf-8"))
            except (OSError, ValueError):  # ValueError: it says `max`
                continue


def _address_space() -> Iterator[int]:
    try:
        import resource  # here: Windows lacks it, and is refused by a clear message

        mapped = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[0])
    except (ImportError, OSError):
        return
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY:
        yield max(limit - mapped * os.sysconf("SC_PAGE_SIZE"), 0)
