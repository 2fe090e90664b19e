"""Operations that can be computed in several ways, and which way this machine computes them.

Which is quickest depends on the chip. `nerfmac tune` measures it and keeps the choice in the cache,
for the chip, the version of MLX and the kernels' text; without that an operation has its first
variant. The environment variable NERFMAC_VARIANTS goes before both, as in
`NERFMAC_VARIANTS=hash_encode_gradient=fixed,march_count=two`, and `using` before all. A choice
takes effect where a graph is built: what `mx.compile` has compiled keeps those of that time.
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

from nerfmac.backend.cache import cache_folder
from nerfmac.backend.device import current_device, device_name
from nerfmac.backend.fallback import why_reference
from nerfmac.backend.sources import kernel_source, operations
from nerfmac.common import checks
from nerfmac.common.checks import InputError
from nerfmac.common.files import make_folder, read_json, write_json
from nerfmac.config import Config

log = logging.getLogger("nerfmac")

_VARIABLE = "NERFMAC_VARIANTS"


class Variants(NamedTuple):
    """The ways to compute something that may be the quickest; the first is the default."""

    on_gpu: tuple[str, ...]
    on_cpu: tuple[str, ...]

    @property
    def here(self) -> tuple[str, ...]:
        """Those to choose from on the current device."""
        return self.on_cpu if current_device() == "cpu" else self.on_gpu

    @property
    def all(self) -> tuple[str, ...]:
        """Those of all devices; each device can run them all."""
        return tuple(dict.fromkeys(self.on_gpu + self.on_cpu))


VARIANTS: Mapping[str, Variants] = {
    # An M1 cannot add a float to memory in one instruction (Mesa's src/asahi/compiler lists those
    # that it has), so that its compiler makes a loop of compare and exchange, which gets longer
    # where threads meet at one entry. `summed` adds first what neighbours of a simdgroup have in
    # common, however little that is. `fixed` adds whole numbers, which all GPUs do in one
    # instruction; their sum is the same in any order. A CPU's threads own their entries.
    "hash_encode_gradient": Variants(("float", "summed", "fixed"), ("float",)),
    # Counting waits for the grid's memory, and rays in turns fill that time; but more of them take
    # more registers. On a CPU four are quickest by BENCHMARKS.md, on that one.
    "march_count": Variants(("one", "two", "four"), ("four", "two", "eight")),
    # Threadgroups that share all tiles, each with a row of partial sums of the weights' gradient:
    # as many as run at a time. An M1 has 8 cores, an H200 132; the fewer, the less to add up. A
    # CPU's sums are to be the same on any number of cores.
    "networks_gradient": Variants(("groups_256", "groups_64", "groups_512"), ("groups_32",)),
    # A tile's rows lie in a threadgroup's memory, eight of which are read at a time. One after the
    # other, all eight begin in the same of its banks, and are read in turns; `padded` leaves 16
    # bytes between them, as MLX's own products do on Apple's GPUs (its kernels/steel/gemm/gemm.h,
    # tgp_padding). It takes an eighth more of that memory, so fewer threadgroups may fit.
    "networks_gradient_rows": Variants(("padded", "close"), ("close",)),
}

_using: ContextVar[Mapping[str, str]] = ContextVar("variants", default={})  # noqa: B039 - never changed


def variant(name: str) -> str:
    """The variant by which `name` is computed on the current device.

    Raises `InputError` where NERFMAC_VARIANTS names what there is not.
    """
    chosen = {**_stored(current_device()), **from_environment(), **_using.get()}
    return chosen.get(name, VARIANTS[name].here[0])


def variants_here() -> dict[str, str]:
    """The variant of each operation that has several, on the current device."""
    return {name: variant(name) for name in VARIANTS}


@contextmanager
def using(**chosen: str) -> Iterator[None]:
    """Within it, on this thread, operations have the `chosen` variants. Raises `InputError`."""
    _check(chosen, "variants")
    before = _using.set({**_using.get(), **chosen})
    try:
        yield
    finally:
        _using.reset(before)


def repeatable() -> AbstractContextManager[None]:
    """Within it, on this thread, sums are the same in any order; a graph built there keeps that.

    Floats are added atomically, and so in any order, by one kernel only.
    """
    return using(hash_encode_gradient="fixed")


def from_environment() -> dict[str, str]:
    """What NERFMAC_VARIANTS chooses. Raises `InputError` for what there is not."""
    return _parsed(os.environ.get(_VARIABLE, ""))


@cache
def _parsed(text: str) -> dict[str, str]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    chosen = {}
    for word in words:
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
    """Where the current device's choice is kept."""
    return cache_folder() / f"variants-{_digest(current_device())}.json"


def keep(chosen: Mapping[str, str], measured: Mapping[str, Any]) -> Path:
    """Keep what is quickest on the current device; `measured` stands beside it for people to read.

    Returns the file. Raises `InputError` where it cannot be written.
    """
    where = path()
    made_on = {"device_name": device_name(), "mlx_version": version("mlx")}
    make_folder(where.parent)
    write_json(where, {**made_on, "variants": dict(chosen), "measured": dict(measured)})
    _stored.cache_clear()
    return where


def is_tuned() -> bool:
    """Whether the cache has a choice for the current device."""
    return bool(_stored(current_device()))


def is_untuned_gpu() -> bool:
    """Whether kernels run on a GPU here and the cache has no choice for it."""
    return current_device() != "cpu" and not why_reference() and not is_tuned()


def choose_first(config: Config, extent: float, *, shows_bar: bool = True) -> None:
    """Measure and keep the quickest variants if this is the first training on a GPU.

    `config` and `extent`, the side of the scene's cube, give the sizes of the operations;
    `shows_bar` shows progress. The measuring module is imported by name, and only here: training
    imports nothing that measures.
    """
    if is_untuned_gpu():
        import_module("nerfmac.measure.tuning").tune_first(config, extent, shows_bar=shows_bar)


@cache
def _stored(_device: str) -> Mapping[str, str]:
    where = path()
    if not where.is_file():
        return {}
    try:
        kept = read_json(where)["variants"]
        _check(kept, str(where))
        return dict(kept)
    except (InputError, KeyError, TypeError, AttributeError):
        log.warning("%s is broken; `nerfmac tune` writes it anew", where)
        return {}


@cache
def _digest(device: str) -> str:
    """Of what a choice depends on."""
    texts = [kernel_source(operation, device) for operation in operations()]
    parts = (device_name(), version("mlx"), repr(dict(VARIANTS)), *texts)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]
