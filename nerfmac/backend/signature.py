"""`Signature` declares the names, dtypes, and shapes of arrays.

    _TAKES = Signature(color=(mx.float32, "slots", 3), ray_start=(mx.int32, "rays + 1"))
    rays = _TAKES.check(color, ray_start)["rays"]

Each tuple contains the dtype of an array, followed by the lengths of its axes. A length is a
number, a name, or a name plus a number. All axes with the same name must have the same length.
"""

from collections.abc import Callable
from typing import Any

import mlx.core as mx

from nerfmac.common import checks

Dtype = mx.Dtype | Callable[[], mx.Dtype]
"""A dtype, or a function that returns a dtype, such as `nerfmac.backend.working_dtype`."""


class Signature(dict[str, tuple[Any, ...]]):
    """Dictionary from the name of each array to its dtype (or a tuple of allowed dtypes) and the
    lengths of its axes."""

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
        for (name, (allowed, *axes)), array in zip(self.items(), arrays, strict=True):
            try:
                checks.shape(name, array, [_length(axis, lengths) for axis in axes])
            except checks.InputError as error:
                others = [
                    f"{said_by[a]} has {lengths[a]} {a}"
                    for a, _ in map(_split, axes)
                    if a in said_by
                ]
                raise checks.InputError("; ".join([str(error), *others])) from None
            kinds = allowed if isinstance(allowed, tuple) else (allowed,)
            checks.dtype(name, array, *map(_resolved, kinds))
            for (axis, more), length in zip(map(_split, axes), array.shape, strict=True):
                if axis and axis not in lengths:
                    lengths[axis], said_by[axis] = length - more, name
        return lengths

    def outputs(self, **lengths: int) -> dict[str, Any]:
        """Return the keyword arguments `output_shapes` and `output_dtypes` of a kernel launch.

        The outputs are the arrays in this signature. Each array must have a single dtype. `lengths`
        contains the lengths of the named axes.

        Raises:
            InputError: If `lengths` lacks a named axis.
        """
        shapes = [tuple(_length(axis, lengths) for axis in axes) for _, *axes in self.values()]
        for (name, (_, *axes)), shape in zip(self.items(), shapes, strict=True):
            if None in shape:
                axis, _ = _split(axes[shape.index(None)])
                raise checks.InputError(f"the axis {axis!r} of the output {name} has no length")
        dtypes = [_resolved(kind) for kind, *_ in self.values()]
        return {"output_shapes": shapes, "output_dtypes": dtypes}


def _split(axis: int | str) -> tuple[str, int]:
    """Return the name of an axis, or "" for a number, and the number that is added to the name."""
    if isinstance(axis, int):
        return "", axis
    name, _, more = axis.partition(" + ")
    return name, int(more or 0)


def _length(axis: int | str, lengths: dict[str, int]) -> int | None:
    """Return the length of an axis, or None if the length of its name is unknown."""
    name, more = _split(axis)
    if not name:
        return more
    return lengths[name] + more if name in lengths else None


def _resolved(kind: Dtype) -> mx.Dtype:
    return kind if isinstance(kind, mx.Dtype) else kind()
