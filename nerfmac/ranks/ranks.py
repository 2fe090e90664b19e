"""`Ranks`: the processes that train one model together, and their collective operations.

All ranks must call the same collective operations in the same order. Each sum is computed once and
then distributed, so the result is bitwise identical on all ranks.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import mlx.core as mx
import numpy as np

from nerfmac.common import InputError

LARGE = 2**16
"""Minimum number of elements of a large array. `weighted_mean` converts each large array to
bfloat16 and sends it separately. All smaller arrays are sent together."""

_VARIABLES = {
    "nccl": ("NCCL_HOST_IP", "NCCL_PORT", "MLX_WORLD_SIZE"),
    "jaccl": ("MLX_IBV_DEVICES",),
    "ring": ("MLX_HOSTFILE",),
}
"""Environment variables of MLX that select each back end."""


@dataclass(frozen=True)
class Ranks:
    """Group of processes (ranks) that train one model together, with the index of this process."""

    rank: int = 0
    size: int = 1
    backend: str = "none"  # `ring`, `jaccl`, or `nccl`; `none` for a single process
    group: Any = None  # `mlx.core.distributed.Group`

    @property
    def is_first(self) -> bool:
        """Whether this process is the first rank. Only the first rank writes files, prints, and
        shows progress bars."""
        return self.rank == 0

    def own(self, drawn: mx.array) -> mx.array:
        """Return the columns (rows, n) of `drawn` (rows, size * n) that belong to this rank."""
        if self.size == 1:
            return drawn
        share = drawn.shape[1] // self.size
        return mx.contiguous(drawn[:, self.rank * share : (self.rank + 1) * share])

    def sum(self, values: mx.array) -> mx.array:
        """Return the lazy sum of `values` over all ranks. The shape and dtype must be the same on
        all ranks."""
        if self.size == 1:
            return values
        return mx.distributed.all_sum(values, group=self.group)

    def mean(self, values: mx.array) -> mx.array:
        """Return the lazy mean of float `values` over all ranks."""
        return values if self.size == 1 else self.sum(values) / self.size

    def weighted_mean(
        self, arrays: Mapping[str, mx.array], weight: mx.array
    ) -> dict[str, mx.array]:
        """Return the lazy means of float32 arrays over all ranks, weighted with each rank's
        `weight`, or 0 if all weights are 0. Large arrays are sent as bfloat16."""
        if self.size == 1:
            return dict(arrays)
        small = [weight * values.reshape(-1) for values in arrays.values() if values.size < LARGE]
        *parts, total = mx.split(
            self.sum(mx.concatenate([*small, weight.reshape(1)])),
            np.cumsum([values.size for values in small]).tolist(),
        )
        factor, rest = 1.0 / mx.maximum(total, 1e-12), iter(parts)
        means = {}
        for name, values in arrays.items():
            if values.size < LARGE:
                summed = next(rest).reshape(values.shape)
            else:
                summed = self.sum((weight * values).astype(mx.bfloat16)).astype(mx.float32)
            means[name] = summed * factor
        return means

    def of_first(self, arrays: Mapping[str, mx.array]) -> dict[str, mx.array]:
        """Broadcast the `arrays` of the first rank to all ranks, bit for bit. Shapes and types must
        be the same on all ranks."""
        if self.size == 1:
            return dict(arrays)
        received = {}
        for name, values in arrays.items():
            words = mx.view(values.reshape(-1), mx.uint32 if values.dtype.size == 4 else mx.uint8)
            # Arrays are sent one at a time, so that the zeros that replace them on the other ranks
            # are never all in memory.
            words = self.sum(words if self.is_first else mx.zeros_like(words))
            received[name] = mx.view(words, values.dtype).reshape(values.shape)
            mx.eval(received[name])
        return received

    def number_of_first(self, value: float) -> float:
        """Broadcast the `value` of the first rank to all ranks."""
        if self.size == 1:
            return value
        # The value is sent in two parts, because a float32 cannot represent a day in seconds with
        # millisecond precision.
        whole = float(int(value))
        both = mx.array([whole, value - whole]) * float(self.is_first)
        return float(np.array(self.sum(both), np.float64).sum())

    def texts(self, text: str) -> list[str]:
        """Return the first 256 bytes of the `text` of each rank, in the order of the ranks."""
        if self.size == 1:
            return [text]
        row = np.zeros((self.size, 256), np.uint8)
        sent = text.encode()[:256]
        row[self.rank, : len(sent)] = np.frombuffer(sent, np.uint8)
        rows = np.array(self.sum(mx.array(row)))
        return [bytes(line).rstrip(b"\0").decode(errors="replace") for line in rows]

    def alike(self, arrays: Mapping[str, mx.array]) -> bool:
        """Return whether `arrays` are bitwise identical on all ranks. Their dtypes must have 32
        bits, and their names and shapes must be the same on all ranks. All ranks get the same
        result."""
        return self.size == 1 or self._is_alike([_checksum(values) for values in arrays.values()])

    def check_alike(self, what: str, text: str) -> None:
        """Raise `InputError` on all ranks if `text` is not the same on all ranks. `what` describes
        the text in the error message."""
        words = np.frombuffer(sha256(text.encode()).digest(), np.uint32)
        if self.size > 1 and not self._is_alike([mx.array(words)]):
            raise InputError(f"the ranks differ in {what}; they must be the same on all ranks")

    def _is_alike(self, words: list[mx.array]) -> bool:
        mine = mx.concatenate([values.reshape(-1) for values in words])
        differ = mx.array(mine != self.of_first({"": mine})[""])
        return not np.array(self.sum(differ.sum())).any()

    def __str__(self) -> str:
        return f"rank {self.rank} of {self.size}, by {self.backend}"


ALONE = Ranks()

_current = ALONE


def current_ranks() -> Ranks:
    """Return the ranks that `join` has connected, or `ALONE`."""
    return _current


def rank_given() -> int:
    """Return the rank of this process from the environment variable MLX_RANK, or 0."""
    rank = os.environ.get("MLX_RANK", "0")
    return int(rank) if rank.isdecimal() else 0


def join() -> Ranks:
    """Connect to the other ranks that the environment variables of MLX specify: MLX_RANK with
    MLX_HOSTFILE (ring), with NCCL_HOST_IP, NCCL_PORT, and MLX_WORLD_SIZE (NCCL), or with
    MLX_IBV_DEVICES (JACCL). Without these variables, the result is `ALONE`. Later calls return the
    same ranks.
    """
    global _current
    backend = _selected_backend()
    if _current is not ALONE or backend is None:
        return _current
    try:
        group = mx.distributed.init(strict=True, backend=backend)
    except (RuntimeError, ValueError) as error:
        raise InputError(f"the ranks cannot connect with {backend}: {error}") from error
    _current = Ranks(group.rank(), group.size(), backend, group) if group.size() > 1 else ALONE
    return _current


def _selected_backend() -> str | None:
    if not os.environ.get("MLX_RANK", "").isdecimal():
        return None
    for backend, names in _VARIABLES.items():
        if all(os.environ.get(name) for name in names):
            return backend
    return None


def _checksum(values: mx.array) -> mx.array:
    """Return a checksum of an array, uint32 (1,). Arrays that differ in a single element always
    have different checksums, and arrays that differ in several elements almost always do."""
    words = mx.view(values.reshape(-1), mx.uint32)
    factors = mx.arange(words.size, dtype=mx.uint32) * 2654435761 + 1
    return (words * (factors | 1)).sum().reshape(1)
