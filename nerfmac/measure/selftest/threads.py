"""How many threads of a group a kernel's pipeline allows, which its registers decide."""

from __future__ import annotations

import re

import mlx.core as mx

from nerfmac.backend import current_device
from nerfmac.measure.bench import Launched

_MORE_THAN_ANY = 2048  # threads; Metal has no larger groups than 1024
_SAID = re.compile(r"maximum allowed threads per threadgroup \((?P<threads>\d+)\)")


def most_threads(launched: Launched) -> int | None:
    """The most threads that a threadgroup of this launch's kernel may have.

    MLX tells it on Metal alone, in the error by which it refuses a larger group
    (mlx/backend/metal/custom_kernel.cpp). None where it does not tell it.
    """
    if current_device() != "metal":
        return None
    try:
        mx.eval(launched.build(**{**launched.call, "threadgroup": (_MORE_THAN_ANY, 1, 1)}))
    except (ValueError, RuntimeError) as error:
        said = _SAID.search(str(error))
        return int(said["threads"]) if said else None
    return None
