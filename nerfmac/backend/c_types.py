"""What a kernel's program calls the types of its arrays."""

from __future__ import annotations

from collections.abc import Mapping

import mlx.core as mx

from nerfmac.common.checks import InputError


def type_in_c(name: str, dtype: mx.Dtype, types: Mapping[mx.Dtype, str], where: str) -> str:
    """The type of the array `name`, by the names of the `types` that kernels have.

    Raises `InputError` for another type; `where` says there which kernels these are.
    """
    if dtype not in types:
        got, *known = (str(each).removeprefix("mlx.core.") for each in (dtype, *types))
        raise InputError(f"{name} is {got}; {where} kernels take and give {', '.join(known)}")
    return types[dtype]
