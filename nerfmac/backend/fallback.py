"""Selection between an operation's kernel and its reference implementation in plain MLX.

If the machine cannot run kernels, all operations use their references, and a warning is logged
once. To find a faulty kernel, set the environment variable NERFMAC_DISABLE_KERNELS to the names of
the operations that should use their references.
"""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import mlx.core as mx

from nerfmac.backend.build import BuildError
from nerfmac.backend.cpu_kernel import CpuKernel
from nerfmac.backend.device import compute_capability, current_device, device_name
from nerfmac.backend.extension import check_requirements, load_extension
from nerfmac.backend.sources import dialect_source, operations
from nerfmac.common import InputError

log = logging.getLogger("nerfmac")

_DISABLE = "NERFMAC_DISABLE_KERNELS"  # 1 for all kernels, or a comma-separated list of operations

# Minimum compute capability. Older GPUs lack the instructions for matrix products and integer sums
# in kernels/dialects/cuda.
_OLDEST_GPU = (8, 0)

users_operations: set[str] = set()
"""Names of operations with user-defined kernels. NERFMAC_DISABLE_KERNELS also accepts them."""


def working_dtype() -> mx.Dtype:
    """Return the dtype that kernels use for features and activations.

    Returns:
        `float16` if kernels run on a GPU, otherwise `float32`.
    """
    return mx.float32 if backend() in ("cpu", "reference") else mx.float16


def backend(operation: str | None = None) -> str:
    """Return the back end: `metal`, `cuda`, `cpu`, or `reference`.

    If `operation` is None, the result is the back end of kernels in general.
    """
    return "reference" if why_reference(operation) else current_device()


def runs_kernel(operation: str) -> bool:
    """Return whether `operation` runs its kernel instead of its reference in plain MLX."""
    return why_reference(operation) is None


@contextmanager
def kernels_disabled() -> Iterator[None]:
    """Return a context manager that makes every operation use its reference."""
    before = os.environ.get(_DISABLE)
    os.environ[_DISABLE] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_DISABLE]
        else:
            os.environ[_DISABLE] = before


def why_reference(operation: str | None = None, *, builds: bool = True) -> str | None:
    """Return the reason why an operation uses its reference, or None if its kernel runs.

    If `operation` is None, the reason applies to kernels in general. If `builds` is False, only the
    requirements for CPU kernels are checked, and the extension is not built.
    """
    value = os.environ.get(_DISABLE, "")
    if {"1", operation} & _disabled(value):
        return f"{_DISABLE}={value}"
    if current_device() == "cpu":
        return why_no_extension() if builds else _why_not_built()
    return _why_not_this_gpu() if current_device() == "cuda" else None


def references() -> dict[str, str]:
    """Return a one-line reason for each operation that uses its reference, keyed by operation."""
    known = sorted({*operations(), *users_operations})
    return {name: why.splitlines()[0] for name in known if (why := why_reference(name))}


@cache
def _disabled(value: str) -> frozenset[str]:
    names = frozenset(name for part in value.split(",") if (name := part.strip()))
    known = sorted({*operations(), *users_operations})
    if unknown := sorted(names - {"1", *known}):
        raise InputError(
            f"{_DISABLE} contains {', '.join(unknown)}; expected 1, for all kernels, or operations "
            f"separated by commas: {', '.join(known)}"
        )
    return names


@cache
def why_no_extension() -> str | None:
    """Return the reason why kernels cannot run on this CPU, or None if they can. The reason is
    logged once."""
    try:
        load_extension()
        # Kernels and the extension use different compiler flags, so compile a small kernel, too.
        probe = CpuKernel("nerfmac_probe", [], ["one"], "one[0] = 1;", dialect_source("cpu"))
        probe(inputs=[], output_shapes=[(1,)], output_dtypes=[mx.int32], grid=(1, 1, 1))
    except BuildError as error:
        log.warning(
            "CPU kernels are not available; using plain MLX operations, about 60 times slower: %s",
            error,
        )
        return str(error)
    return None


def _why_not_built() -> str | None:
    """Return a description of the missing requirement for building CPU kernels, or None if nothing
    is missing."""
    try:
        check_requirements()
    except BuildError as error:
        return str(error)
    return None


@cache
def _why_not_this_gpu() -> str | None:
    """Return the reason why kernels cannot run on this NVIDIA GPU, or None if they can. The reason
    is logged once."""
    capability = compute_capability()
    if capability is None or capability >= _OLDEST_GPU:
        return None
    own, least = (".".join(map(str, version)) for version in (capability, _OLDEST_GPU))
    reason = f"{device_name()} has compute capability {own}; the kernels need {least}"
    log.warning("CUDA kernels are not available; using plain MLX operations: %s", reason)
    return reason
