"""Selection between several implementations (variants) of the same operation.

A variant is selected with `using`, or with the environment variable NERFMAC_VARIANTS (for example
`hash_encode_gradient=fixed,march_count=two`). Otherwise, the device's first variant is used. The
selection does not affect functions that `mx.compile` has already compiled.
"""

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import cache
from typing import NamedTuple

from nerfmac.backend.apple import has_native_floats
from nerfmac.backend.device import apple_generation, current_device
from nerfmac.common import InputError, checks

log = logging.getLogger("nerfmac")

_VARIABLE = "NERFMAC_VARIANTS"


class Variants(NamedTuple):
    """Variants of one operation for each type of device. The first variant for a device is the
    default."""

    on_gpu: tuple[str, ...]
    on_cpu: tuple[str, ...]
    on_first_macs: tuple[str, ...] = ()  # for Apple GPUs without atomic floats; if empty, `on_gpu`

    @property
    def here(self) -> tuple[str, ...]:
        """Variants for the current device. The first one is the default."""
        if current_device() == "cpu":
            return self.on_cpu
        is_first = self.on_first_macs and not has_native_floats(apple_generation())
        return self.on_first_macs if is_first else self.on_gpu

    @property
    def all(self) -> tuple[str, ...]:
        """Variants for all devices, without duplicates. Every device can run every variant."""
        return tuple(dict.fromkeys(self.on_gpu + self.on_cpu))


VARIANTS: Mapping[str, Variants] = {
    # An M1 has no instruction that atomically adds a float to memory (Mesa lists the instructions
    # in src/asahi/compiler). Apple's compiler emits a compare-and-exchange loop instead, which
    # repeats if several threads add to the same entry. According to the rates in backend/apple.py,
    # the loop would add 120 ms to a training step of the preset base. The variant `summed` first
    # sums the values of neighboring threads in a simdgroup that share an entry. The variant `fixed`
    # adds integers: every GPU has an instruction for this addition, and the sum does not depend on
    # the order. On a CPU, different threads add to different entries, so no atomic addition is
    # necessary. The variants with floats are not offered on the first Macs, because the loop may
    # never end if the sum is NaN (ml-explore/mlx issue 3492 describes such a loop).
    "hash_encode_gradient": Variants(
        ("float", "summed", "fixed"), ("float",), on_first_macs=("fixed",)
    ),
    # Number of rays that a simdgroup counts alternately. Counting waits for reads of the grid, and
    # processing other rays in the meantime hides this latency. However, more rays use more
    # registers. On x86-64 CPUs with AVX-512, four rays are fastest.
    "march_count": Variants(("one", "two", "four"), ("four", "two", "eight")),
    # Number of threadgroups. Each threadgroup computes a separate partial sum of the weight
    # gradients. The best choice is the number of threadgroups that run at the same time (an M1 has
    # 8 cores, an H200 has 132), because each additional threadgroup only increases the number of
    # partial sums. On a CPU, the number is constant, so that sums do not depend on the number of
    # cores.
    "networks_gradient": Variants(("groups_256", "groups_64", "groups_512"), ("groups_32",)),
    # Layout of a matrix tile in threadgroup memory, where eight rows are read at a time. With
    # `close`, all rows begin in the same memory bank, so the eight reads conflict. With `padded`,
    # 16 unused bytes separate the rows, as in MLX's matrix products on Apple GPUs
    # (kernels/steel/gemm/gemm.h, tgp_padding). The padding increases threadgroup memory by one
    # eighth, so fewer threadgroups may run at the same time.
    "networks_gradient_rows": Variants(("padded", "close"), ("close",)),
}

_using: ContextVar[Mapping[str, str]] = ContextVar("variants", default={})  # noqa: B039 - never changed


def variant(name: str) -> str:
    """Return the selected variant of the operation `name` on the current device."""
    chosen = {**from_environment(), **_using.get()}
    return chosen.get(name, VARIANTS[name].here[0])


def variants_here() -> dict[str, str]:
    """Return the variant of each operation on the current device."""
    return {name: variant(name) for name in VARIANTS}


@contextmanager
def using(**chosen: str) -> Iterator[None]:
    """Return a context manager that selects the `chosen` variants for this thread."""
    _check(chosen, "variants")
    before = _using.set({**_using.get(), **chosen})
    try:
        yield
    finally:
        _using.reset(before)


def repeatable() -> AbstractContextManager[None]:
    """Return a context manager that makes this thread's results bitwise reproducible.

    Only the gradient of the hash encoding adds floats atomically, in an order that varies between
    runs. The variant `fixed`, which this context manager selects, adds integers.
    """
    return using(hash_encode_gradient="fixed")


def from_environment() -> dict[str, str]:
    """Return the variants that the environment variable NERFMAC_VARIANTS specifies."""
    return _parsed(os.environ.get(_VARIABLE, ""))


@cache
def _parsed(text: str) -> dict[str, str]:
    chosen = {}
    for word in filter(None, map(str.strip, text.split(","))):
        name, separator, value = word.partition("=")
        if not separator:
            raise InputError(f"{_VARIABLE} has {word!r}; expected OPERATION=VARIANT, with commas")
        chosen[name.strip()] = value.strip()
    _check(chosen, _VARIABLE)
    return chosen


def _check(chosen: Mapping[str, str], where: str) -> None:
    for name, value in chosen.items():
        checks.choice(f"{where}: the operation", name, list(VARIANTS))
        checks.choice(f"{where}: {name}", value, VARIANTS[name].all)
