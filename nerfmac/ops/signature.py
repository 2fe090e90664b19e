"""`Signature` declares the names, dtypes, and shapes of an operation's arrays.

    _TAKES = Signature(color=(mx.float32, "slots", 3), widths=(mx.float32, "slots"))
    slots = _TAKES.check(color, widths)["slots"]

Each tuple contains the dtype of an array, followed by the lengths of its axes. A length is a number
or a name. All axes with the same name must have the same length.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import mlx.core as mx

from nerfmac.common import checks

Dtype = mx.Dtype | Callable[[], mx.Dtype]
"""A dtype, or a function that returns a dtype, such as `nerfmac.backend.working_dtype`."""


class Signature:
    """Ordered names of arrays, each with one or more allowed dtypes and the lengths of its axes."""

    def __init__(self, **arrays: tuple[Dtype | tuple[Dtype, ...] | int | str, ...]) -> None:
        self._arrays: Mapping[str, tuple[Any, ...]] = arrays

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the arrays, for the arguments `inputs` and `outputs` of a `Kernel`."""
        return tuple(self._arrays)

    def check(self, *arrays: mx.array, **lengths: int) -> dict[str, int]:
        """Check the shapes and types of arrays.

        Args:
            arrays: Arrays in the order of the signature.
            lengths: Lengths of named axes that the caller already knows.

        Returns:
            Length of each named axis.

        Raises:
            InputError: If an array has a wrong shape or type. If the lengths of a named axis differ
                between two arrays, the message contains both lengths.
        """
        said_by: dict[str, str] = {}
        for (name, (allowed, *axes)), array in zip(self._arrays.items(), arrays, strict=True):
            try:
                checks.shape(
                    name, array, [lengths.get(a) if isinstance(a, str) else a for a in axes]
                )
            except checks.InputError as error:
                others = [f"{said_by[a]} has {lengths[a]} {a}" for a in axes if a in said_by]
                raise checks.InputError("; ".join([str(error), *others])) from None
            kinds = allowed if isinstance(allowed, tuple) else (allowed,)
            checks.dtype(name, array, *map(_resolved, kinds))
            for axis, length in zip(axes, array.shape, strict=True):
                if isinstance(axis, str) and axis not in lengths:
                    lengths[axis], said_by[axis] = length, name
        return lengths

    def outputs(self, **lengths: int) -> dict[str, Any]:
        """Return the keyword arguments `output_shapes` and `output_dtypes` of a kernel launch.

        The outputs are the arrays in this signature. Each array must have a single dtype. `lengths`
        contains the lengths of the named axes.
        """
        return {
            "output_shapes": [
                tuple(lengths[a] if isinstance(a, str) else a for a in axes)
                for _, *axes in self._arrays.values()
            ],
            "output_dtypes": [_resolved(kind) for kind, *_ in self._arrays.values()],
        }


def _resolved(kind: Dtype) -> mx.Dtype:
    return kind if isinstance(kind, mx.Dtype) else kind()
