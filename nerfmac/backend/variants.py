"""Variants: operations with several implementations, and the choice between them.

The fastest variant depends on the chip. A variant is selected, in order of precedence, with
`using`, with the environment variable NERFMAC_VARIANTS
(`hash_encode_gradient=fixed,march_count=two`), or by `nerfmac tune`. That command measures all
variants and caches the fastest one for the chip, the MLX version, the kernel source code, and the
model sizes (`tuned_for`). The default is the first variant of the device. The selection applies
when a graph is built: functions that `mx.compile` has already compiled do not change.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from nerfmac.backend.apple import has_native_floats
from nerfmac.backend.device import apple_generation, current_device, device_name
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
    # instructions). Its compiler emits a compare-and-exchange loop. The loop repeats if several
    # threads add to the same entry: according to the rates in backend/apple.py, it would add 120 ms
    # to a training step of preset base. `summed` first sums the values of neighboring threads of a
    # simdgroup that share an entry. `fixed` adds integers: this takes one instruction on every GPU,
    # and the sum does not depend on the order. On a CPU each thread owns its entries.
    "hash_encode_gradient": Variants(
        ("float", "summed", "fixed"), ("float",), on_first_macs=("fixed", "summed", "float")
    ),
    # Rays per simdgroup. Counting waits for the grid's memory, and other rays fill that time; but
    # more rays take more registers. On x86-64 CPUs with AVX-512 four are fastest.
    "march_count": Variants(("one", "two", "four"), ("four", "two", "eight")),
    # Number of threadgroups, each with its own partial sum of the weights' gradient. It should be
    # the number that run at a time (an M1 has 8 cores, an H200 132): fewer groups leave less to add
    # up. On a CPU sums must not depend on the number of cores.
    "networks_gradient": Variants(("groups_256", "groups_64", "groups_512"), ("groups_32",)),
    # Layout of a tile in threadgroup memory, where eight rows are read at a time. `close` rows all
    # begin in the same memory bank, so the eight reads conflict. `padded` leaves 16 bytes between
    # rows, as MLX's own products do on Apple's GPUs (kernels/steel/gemm/gemm.h, tgp_padding). It
    # takes an eighth more threadgroup memory, so fewer threadgroups may fit.
    "networks_gradient_rows": Variants(("padded", "close"), ("close",)),
}

_using: ContextVar[Mapping[str, str]] = ContextVar("variants", default={})  # noqa: B039 - never changed


def variant(name: str) -> str:
    """The chosen variant of the operation `name` on the current device.

    Outside `tuned_for`, the choices of `nerfmac tune` are not used. Raises `InputError` if
    NERFMAC_VARIANTS contains an unknown operation or variant.
    """
    sizes = _sizes.get()
    tuned = _stored(current_device(), sizes) if sizes else {}
    chosen = {**tuned, **from_environment(), **_using.get()}
    return chosen.get(name, VARIANTS[name].here[0])


def variants_here(config: Config) -> dict[str, str]:
    """The chosen variant of each operation in `VARIANTS`, on the current device, for `config`."""
    with tuned_for(config):
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


_sizes: ContextVar[str] = ContextVar("sizes", default="")


@contextmanager
def tuned_for(config: Config) -> Iterator[None]:
    """Return a context manager that selects the cached choices of `nerfmac tune` for `config`.

    It applies to the current thread. The choices depend on the model sizes, but not on the scene
    extent or resolution: choices that `nerfmac tune` made without a scene are used with every
    scene.
    """
    before = _sizes.set(_sizes_of(config))
    try:
        yield
    finally:
        _sizes.reset(before)


def _sizes_of(config: Config) -> str:
    grid, networks = config.grid, config.networks
    sizes = {
        "grid": (grid.levels, grid.features, grid.log2_entries),
        "networks": (networks.width, networks.density_layers, networks.color_layers),
        "max_samples": config.march.max_samples,
        "occupancy": config.occupancy.resolution,
    }
    return repr(sizes)


def path(config: Config) -> Path:
    """Path of the file that stores the choice for the current device and the sizes of `config`."""
    return _path(current_device(), _sizes_of(config))


def _path(device: str, sizes: str) -> Path:
    return cache_folder() / f"variants-{_digest(device, sizes)}.json"


def keep(config: Config, chosen: Mapping[str, str], measured: Mapping[str, Any]) -> Path:
    """Write the fastest variants on the current device, and the measurements, to `path(config)`.

    Returns the path. Raises `InputError` if it cannot be written.
    """
    file = path(config)
    measured_on = {"device_name": device_name(), "mlx_version": version("mlx")}
    make_folder(file.parent)
    write_json(file, {**measured_on, "variants": dict(chosen), "measured": dict(measured)})
    _stored.cache_clear()
    return file


def is_tuned(config: Config) -> bool:
    """Whether the cache has a choice of variants for the current device and sizes of `config`."""
    return bool(_stored(current_device(), _sizes_of(config)))


@cache
def _stored(device: str, sizes: str) -> Mapping[str, str]:
    """The stored variants; empty without a file, or if it is broken."""
    file = _path(device, sizes)
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
def _digest(device: str, sizes: str) -> str:
    """Hash of everything that a choice of variants depends on."""
    texts = [kernel_source(operation, device) for operation in operations()]
    parts = (device_name(), version("mlx"), repr(dict(VARIANTS)), sizes, *texts)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]
