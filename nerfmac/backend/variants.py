"""Variants: operations with several implementations, and the choice between them.

The fastest one depends on the chip. In order of precedence, a variant is chosen by `using`, by the
environment variable NERFMAC_VARIANTS (`hash_encode_gradient=fixed,march_count=two`), or by
`nerfmac tune`, which measures all and caches the fastest for the chip, the version of MLX and the
kernels' text. The default is the first variant of the device. A choice takes effect when a graph
is built: functions that `mx.compile` has compiled keep theirs.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import cache
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from nerfmac.backend.apple import has_native_floats
from nerfmac.backend.device import apple_generation, current_device, device_name
from nerfmac.backend.fallback import why_reference
from nerfmac.backend.host import cache_folder
from nerfmac.backend.sources import kernel_source, operations
from nerfmac.common import checks
from nerfmac.common.checks import InputError
from nerfmac.common.files import make_folder, read_json, write_json
from nerfmac.config import Config

log = logging.getLogger("nerfmac")

_VARIABLE = "NERFMAC_VARIANTS"


class Variants(NamedTuple):
    """The variants of an operation that may be the fastest; the first is the default."""

    on_gpu: tuple[str, ...]
    on_cpu: tuple[str, ...]
    on_first_macs: tuple[str, ...] = ()  # GPUs that add floats by a loop; empty: as `on_gpu`

    @property
    def here(self) -> tuple[str, ...]:
        """The variants to choose from on the current device."""
        if current_device() == "cpu":
            return self.on_cpu
        is_first = self.on_first_macs and not has_native_floats(apple_generation())
        return self.on_first_macs if is_first else self.on_gpu

    @property
    def all(self) -> tuple[str, ...]:
        """The variants of all devices, without duplicates; each device can run them all."""
        return tuple(dict.fromkeys(self.on_gpu + self.on_cpu))


VARIANTS: Mapping[str, Variants] = {
    # An M1 has no instruction that adds a float to memory (Mesa's src/asahi/compiler lists its
    # instructions). Its compiler emits a compare-and-exchange loop, which repeats if threads add to
    # the same entry: by the rates of backend/apple.py, a step of preset base would take 120 ms
    # for it. `summed` first adds up neighbours of a simdgroup that share an entry. `fixed` adds
    # integers: one instruction on every GPU, and the same sum in any order. On a CPU each thread
    # owns its entries.
    "hash_encode_gradient": Variants(
        ("float", "summed", "fixed"), ("float",), on_first_macs=("fixed", "summed", "float")
    ),
    # Levels per thread of the forward pass. A level's features are 4 of a point's 64 bytes in
    # preset base, so neighbouring threads write far apart; those of four levels are 16. But then
    # fewer threads wait for the table.
    "hash_encode_levels": Variants(("one", "four"), ("one",)),
    # Rays per simdgroup. Counting waits for the grid's memory, and other rays fill that time; but
    # more rays take more registers. On the CPU of BENCHMARKS.md four are fastest.
    "march_count": Variants(("one", "two", "four"), ("four", "two", "eight")),
    # Number of threadgroups, each with its own partial sum of the weights' gradient. It should be
    # the number that run at a time (an M1 has 8 cores, an H200 132): fewer groups leave less to add
    # up. On a CPU sums must not depend on the number of cores.
    "networks_gradient": Variants(("groups_256", "groups_64", "groups_512"), ("groups_32",)),
    # Loops over the samples in the networks' gradient: one for both networks, or one for each. Two
    # loops compute the embedding twice, but each has less code (an M1's core caches 12 KB of it, by
    # philipturner/metal-benchmarks) and holds fewer sums.
    "networks_gradient_loops": Variants(("one", "two"), ("one",)),
    # Layout of a tile in threadgroup memory, where eight rows are read at a time. `close` rows all
    # begin in the same memory bank, so the eight reads conflict. `padded` leaves 16 bytes between
    # rows, as MLX's own products do on Apple's GPUs (kernels/steel/gemm/gemm.h, tgp_padding). It
    # takes an eighth more threadgroup memory, so fewer threadgroups may fit.
    "networks_gradient_rows": Variants(("padded", "close"), ("close",)),
}

_using: ContextVar[Mapping[str, str]] = ContextVar("variants", default={})  # noqa: B039 - never changed


def variant(name: str) -> str:
    """The chosen variant of the operation `name` on the current device.

    Raises `InputError` if NERFMAC_VARIANTS names an unknown operation or variant.
    """
    chosen = {**_stored(current_device()), **from_environment(), **_using.get()}
    return chosen.get(name, VARIANTS[name].here[0])


def variants_here() -> dict[str, str]:
    """The chosen variant of each operation in `VARIANTS`, on the current device."""
    return {name: variant(name) for name in VARIANTS}


@contextmanager
def using(**chosen: str) -> Iterator[None]:
    """Context manager: this thread uses the `chosen` variants. Raises `InputError`."""
    _check(chosen, "variants")
    before = _using.set({**_using.get(), **chosen})
    try:
        yield
    finally:
        _using.reset(before)


def repeatable() -> AbstractContextManager[None]:
    """Context manager: graphs that this thread builds give the same bits in every run.

    Only the gradient of the hash encoding adds floats atomically, in an order that varies; its
    variant `fixed` adds integers.
    """
    return using(hash_encode_gradient="fixed")


def from_environment() -> dict[str, str]:
    """The variants that NERFMAC_VARIANTS names. Raises `InputError` for unknown ones."""
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


def path() -> Path:
    """Path of the file that keeps the current device's choice of variants."""
    return cache_folder() / f"variants-{_digest(current_device())}.json"


def keep(chosen: Mapping[str, str], measured: Mapping[str, Any]) -> Path:
    """Write the fastest variants on the current device, and what was `measured`, to `path()`.

    Returns the path. Raises `InputError` if it cannot be written.
    """
    file = path()
    measured_on = {"device_name": device_name(), "mlx_version": version("mlx")}
    make_folder(file.parent)
    write_json(file, {**measured_on, "variants": dict(chosen), "measured": dict(measured)})
    _stored.cache_clear()
    return file


def is_tuned() -> bool:
    """Whether the cache has a choice of variants for the current device."""
    return bool(_stored(current_device()))


def is_untuned_gpu() -> bool:
    """Whether kernels run on a GPU here and the cache has no choice of variants for it."""
    return current_device() != "cpu" and not why_reference() and not is_tuned()


def choose_first(config: Config, extent: float) -> None:
    """Tune before the first training on a GPU: measure the variants and keep the fastest.

    `config` and `extent`, the side of the scene's cube, determine the sizes of the operations.
    Nothing is tuned where every variant is named already. The measuring module is imported here,
    by name, so that training itself imports nothing that measures.
    """
    if is_untuned_gpu() and not VARIANTS.keys() <= {**from_environment(), **_using.get()}.keys():
        import_module("nerfmac.measure.tuning").tune_first(config, extent)


@cache
def _stored(_device: str) -> Mapping[str, str]:
    """The variants in `path()`; empty without that file, or if it is broken."""
    file = path()
    if not file.is_file():
        return {}
    try:
        chosen = read_json(file)["variants"]
        _check(chosen, str(file))
        return dict(chosen)
    except (InputError, KeyError, TypeError, AttributeError):
        log.warning("%s is broken and ignored; `nerfmac tune` writes it again", file)
        return {}


@cache
def _digest(device: str) -> str:
    """Hash of everything that a choice of variants depends on."""
    texts = [kernel_source(operation, device) for operation in operations()]
    parts = (device_name(), version("mlx"), repr(dict(VARIANTS)), *texts)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]
