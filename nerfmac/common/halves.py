"""Conversion of parameters to float16, for export to other programs."""

import numpy as np
import numpy.typing as npt

from nerfmac.common.checks import InputError


def to_halves(values: npt.NDArray[np.floating]) -> npt.NDArray[np.float16]:
    """Round finite `values` in the range of float16 to little-endian float16."""
    limit = float(np.finfo(np.float16).max)
    if not (np.abs(values) < limit).all():
        raise InputError(f"a parameter is not finite or beyond half precision, {limit:g}")
    return values.astype("<f2")
