"""Whether an operation runs as a kernel, or as its plain MLX reference, and why.

The reference replaces a kernel where the machine cannot have kernels, which is said once, and where
the variable NERFMAC_DISABLE_KERNELS asks for it: to find out which kernel a fault is in.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import mlx.core as mx

from nerfmac.backend.build import BuildError
from nerfmac.backend.cpu_kernel import cpu_kernel
from nerfmac.backend.device import compute_capability, current_device, device_name
from nerfmac.backend.extension import extension
from nerfmac.backend.sources import dialect_source, operations
from nerfmac.checks import InputError

log = logging.getLogger("nerfmac")

_DISABLE = "NERFMAC_DISABLE_KERNELS"  # 1, or operations with commas between them

# Compute capability: kernels/dialects/cuda multiplies matrices and adds up integers by instructions
# that older GPUs have not.
_OLDEST_GPU = (8, 0)

users_operations: set[str] = set()
"""Operations of kernels whose source is not ours: they may be disabled too."""


def working_dtype() -> mx.Dtype:
    """What features and activations are computed in: half precision where kernels run on a GPU."""
    return mx.float32 if backend() in ("cpu", "reference") else mx.float16


def backend(operation: str | None = None) -> str:
    """What runs `operation` (or kernels in general) now: metal, cuda, cpu or reference."""
    return "reference" if why_reference(operation) else current_device()


def runs_kernel(operation: str) -> bool:
    """Whether `operation` runs as a kernel; if not, its plain MLX reference does."""
    return why_reference(operation) is None


@contextmanager
def kernels_disabled() -> Iterator[None]:
    """Within it, every operation runs its reference."""
    before = os.environ.get(_DISABLE)
    os.environ[_DISABLE] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_DISABLE]
        else:
            os.environ[_DISABLE] = before


def why_reference(operation: str | None = None) -> str | None:
    """Why the reference replaces the kernel of `operation`, in words; None if it does not.

    Raises `InputError` where NERFMAC_DISABLE_KERNELS names what is no operation.
    """
    value = os.environ.get(_DISABLE, "")
    if {"1", operation} & _disabled(value):
        return f"{_DISABLE}={value}"
    if current_device() == "cpu":
        return why_no_extension()
    return _why_not_this_gpu() if current_device() == "cuda" else None


@cache
def _disabled(value: str) -> frozenset[str]:
    names = frozenset(name for part in value.split(",") if (name := part.strip()))
    known = sorted({*operations(), *users_operations})
    if unknown := sorted(names - {"1", *known}):
        raise InputError(
            f"{_DISABLE} names {', '.join(unknown)}; expected 1, for all kernels, or names of "
            f"operations with commas between them: {', '.join(known)}"
        )
    return names


@cache
def why_no_extension() -> str | None:
    """Why there are no kernels on a CPU, in words, with one warning; None if there are."""
    try:
        extension()
        # Kernels are compiled with other flags than the extension, which a compiler may refuse.
        probe = cpu_kernel("nerfmac_probe", [], ["one"], "one[0] = 1;", dialect_source("cpu"))
        probe(inputs=[], output_shapes=[(1,)], output_dtypes=[mx.int32], grid=(1, 1, 1))
    except BuildError as error:
        log.warning(
            "CPU kernels are off, plain MLX operations, about 60 times slower, replace them: %s",
            error,
        )
        return str(error)
    return None


@cache
def _why_not_this_gpu() -> str | None:
    capability = compute_capability()
    if capability is None or capability >= _OLDEST_GPU:
        return None
    found, needed = (".".join(map(str, each)) for each in (capability, _OLDEST_GPU))
    reason = f"{device_name()} has compute capability {found}; the kernels need {needed}"
    log.warning("CUDA kernels are off, plain MLX operations replace them: %s", reason)
    return reason
