"""Limits on the work of a kernel launch on Apple GPUs, and the estimated rates behind them.

The rates of atomic additions are not measured with nerfmac, but derived from the README of
iRath96/metal-hashmlp, in which a hash grid gradient of about 33.5 million additions takes 30 ms
with atomic float additions and 1.8 ms with non-atomic additions on an M1 Max, and 1.2 ms with
atomic float additions on an M3 Max. The rate of a chip is assumed to be proportional to its
arithmetic throughput.
"""

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
# Generations 13 and 14 add integers atomically with one instruction, assumed to be as fast as a
# non-atomic addition, because no measurement has been published.
_INTEGERS_BEFORE = 33.5e6 / 1.8e-3 / 10.4e12
# Features per second that an M1 interpolates at random positions in a hash grid with two features
# per entry. The value is estimated from the memory bandwidth and the size of a cache line.
_FEATURES = 1.3e9


def has_native_floats(of: int | None) -> bool:
    """Return whether GPUs of an Apple GPU generation add floats atomically with one instruction. If
    the generation is None (unknown), return True."""
    return of is None or of >= NATIVE_FLOATS


def additions_per_second(of: int, rate: float, *, floats: bool) -> float:
    """Estimate how many atomic additions of floats or integers an Apple GPU performs per second.

    `of` is the generation of the GPU, such as 13 for an M1, and `rate` is its number of float32
    operations per second.
    """
    if has_native_floats(of):
        return _FLOATS * rate  # assumed for integers as well
    return (_FLOATS_BY_LOOP if floats else _INTEGERS_BEFORE) * rate


def additions_per_launch(*, floats: bool) -> float:
    """Return how many atomic additions fit in a launch of `LONGEST_LAUNCH` seconds on an M1.

    In the relaxed mode (`nerfmac.backend.watchdog`), the number is divided by `SHORTER`. On devices
    other than Apple GPUs, the result is infinity.
    """
    if current_device() != "metal":
        return float("inf")
    of = apple_generation() or 13
    return _launch_seconds() * additions_per_second(of, SLOWEST, floats=floats)


def features_per_launch() -> float:
    """Return how many features of positions a launch of `LONGEST_LAUNCH` seconds encodes on an M1.
    The relaxed mode and other devices are as in `additions_per_launch`."""
    return _launch_seconds() * _FEATURES if current_device() == "metal" else float("inf")


def _launch_seconds() -> float:
    return LONGEST_LAUNCH / (SHORTER if is_relaxed() else 1)
