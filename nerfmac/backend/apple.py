"""Estimated rates of atomic additions for each generation of Apple GPUs.

The rates have not been measured with nerfmac. They are derived from a public measurement in the
README of iRath96/metal-hashmlp. The hash grid gradient in that measurement performs about 33.5
million additions. On an M1 Max, it takes 30 ms with atomic float additions and 1.8 ms with
non-atomic additions. On an M3 Max, it takes 1.2 ms with atomic float additions. The rate of a chip
is assumed to be proportional to its arithmetic throughput.
"""

from __future__ import annotations

from nerfmac.backend.device import apple_generation, current_device
from nerfmac.backend.watchdog import SHORTER, is_relaxed

NATIVE_FLOATS = 15
"""First Apple GPU generation (M3) that adds a float to memory atomically with one instruction,
according to the measurement in the module docstring. Generations 13 and 14 (M1, M2) use a
compare-and-exchange loop (dougallj/applegpu, pull request 25)."""

LONGEST_LAUNCH = 0.1
"""Maximum acceptable duration of a kernel launch, in seconds. macOS stops GPU work that delays the
display."""

SLOWEST = 2.6e12
"""Approximate number of float32 operations per second of the slowest chip, an M1."""

# Atomic additions per float32 operation of an M1 Max (10.4e12 operations per second) and an M3 Max.
_FLOATS_BY_LOOP = 33.5e6 / 30e-3 / 10.4e12
_FLOATS = 33.5e6 / 1.2e-3 / 16.4e12
# Generations 13 and 14 have native atomic integer additions. No measurement of their speed has been
# published, so they are assumed to be as fast as non-atomic additions.
_INTEGERS_BEFORE = 33.5e6 / 1.8e-3 / 10.4e12


def has_native_floats(of: int | None) -> bool:
    """Return whether an Apple GPU generation adds floats atomically with one instruction.

    If the generation is None, the result is True.
    """
    return of is None or of >= NATIVE_FLOATS


def additions_per_second(of: int, rate: float, *, floats: bool) -> float:
    """Estimate how many atomic additions an Apple GPU performs per second.

    Args:
        of: GPU generation of the chip, such as 13 for an M1.
        rate: Arithmetic throughput of the chip, in float32 operations per second.
        floats: True for additions of floats, False for additions of integers.

    Returns:
        Estimated number of atomic additions per second.
    """
    if has_native_floats(of):
        return _FLOATS * rate  # assumed for integers as well
    return (_FLOATS_BY_LOOP if floats else _INTEGERS_BEFORE) * rate


def additions_per_launch(*, floats: bool) -> float:
    """Return how many atomic additions fit in a launch of `LONGEST_LAUNCH` seconds.

    The arithmetic throughput is assumed to be that of an M1, the slowest chip. In the relaxed mode
    (`nerfmac.backend.watchdog`), the number is divided by `SHORTER`. On devices other than Apple
    GPUs, it is infinite.
    """
    if current_device() != "metal":
        return float("inf")
    of = apple_generation() or 13
    seconds = LONGEST_LAUNCH / (SHORTER if is_relaxed() else 1)
    return seconds * additions_per_second(of, SLOWEST, floats=floats)
