"""Selection between several implementations (variants) of the same operation.

A variant is selected, in order of precedence, with `using`, with the environment variable
NERFMAC_VARIANTS (for example `hash_encode_gradient=fixed,march_count=two`), or by `nerfmac tune`,
which caches the fastest one for the chip, the MLX version, the kernel source code, and the model
sizes. Otherwise, the device's first variant is used. The selection does not affect functions that
`mx.compile` has already compiled.
"""

import hashlib
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from nerfmac.backend.apple import has_native_floats
from nerfmac.backend.device import apple_generation, current_device, device_name
from nerfmac.backend.host import cache_folder
from nerfmac.backend.sources import kernel_source, operations
from nerfmac.common import InputError, checks, make_folder, read_json, write_json
from nerfmac.config import Config

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
        """Variants that `nerfmac tune` compares on the current device."""
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
    # necessary. `nerfmac tune` does not try the variants with floats on the first Macs, because the
    # loop may never end if the sum is NaN (ml-explore/mlx issue 3492 describes such a loop).
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
    """Return the selected variant of the operation `name` on the current device.

    Variants chosen by `nerfmac tune` are used only inside the context manager `tuned_for`.
    """
    sizes = _sizes.get()
    tuned = _stored(current_device(), sizes) if sizes else {}
    chosen = {**tuned, **from_environment(), **_using.get()}
    return chosen.get(name, VARIANTS[name].here[0])


def variants_here(config: Config) -> dict[str, str]:
    """Return the variant of each operation for `config` on the current device."""
    with tuned_for(config):
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


_sizes: ContextVar[str] = ContextVar("sizes", default="")


@contextmanager
def tuned_for(config: Config) -> Iterator[None]:
    """Return a context manager that selects the variants that `nerfmac tune` cached for `config`.

    The selection applies to the current thread and does not depend on the scene's extent or
    resolution.
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
    """Return the path of the cached variants for the current device and model sizes."""
    return _path(current_device(), _sizes_of(config))


def _path(device: str, sizes: str) -> Path:
    return cache_folder() / f"variants-{_digest(device, sizes)}.json"


def keep(config: Config, chosen: Mapping[str, str], measured: Mapping[str, Any]) -> Path:
    """Write the `chosen` variants and the measurements to `path(config)`, and return this path."""
    file = path(config)
    measured_on = {"device_name": device_name(), "mlx_version": version("mlx")}
    make_folder(file.parent)
    write_json(file, {**measured_on, "variants": dict(chosen), "measured": dict(measured)})
    _stored.cache_clear()
    return file


def is_tuned(config: Config) -> bool:
    """Return whether variants are cached for the current device and model sizes."""
    return bool(_stored(current_device(), _sizes_of(config)))


def tuning_hint(config: Config) -> str | None:
    """Return a sentence that suggests `nerfmac tune`, once per machine, if the device is an Apple
    GPU and no variants are cached for `config`."""
    shown = cache_folder() / "tuning-hint-shown"
    if current_device() != "metal" or is_tuned(config) or shown.exists():
        return None
    with suppress(InputError, OSError):  # If the folder is read-only, the hint is shown again.
        make_folder(shown.parent)
        shown.touch()
    return (
        f"`nerfmac tune --preset {config.preset}` may make training on this Mac faster; it takes "
        "about half a minute and needs to run only once"
    )


@cache
def _stored(device: str, sizes: str) -> Mapping[str, str]:
    """Return the cached variants, or an empty mapping if the file is missing or damaged."""
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
    """Return a hash of everything that determines the fastest variants."""
    texts = [kernel_source(operation, device) for operation in operations()]
    parts = (device_name(), version("mlx"), repr(dict(VARIANTS)), sizes, *texts)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]
