"""`to_halves`: float16 copies of parameters, for files that other programs read."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nerfmac.common.checks import InputError


def to_halves(values: npt.NDArray[np.floating]) -> npt.NDArray[np.float16]:
    """`values` rounded to little-endian float16; `InputError` for one that float16 cannot hold."""
    limit = float(np.finfo(np.float16).max)
    if not (np.abs(values) < limit).all():
        raise InputError(f"a parameter is not finite or beyond half precision, {limit:g}")
    return values.astype("<f2")
