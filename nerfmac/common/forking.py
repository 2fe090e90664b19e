"""Detection of processes that were forked after MLX had been used.

The threads and the GPU context of MLX do not exist in a forked process, where every evaluation
would wait forever.
"""

import os
import sys

from nerfmac.common.checks import InputError

_is_broken = False  # Whether MLX had allocated memory when this process was forked.


def refuse_forked() -> None:
    """Raise `InputError` if this process was forked after MLX had been used."""
    if _is_broken:
        raise InputError(
            "this process was forked after MLX had been used, and MLX does not work in such a "
            "process; start processes with the method spawn, for example with "
            'multiprocessing.get_context("spawn")'
        )


def _check_mlx() -> None:
    global _is_broken
    mx = sys.modules.get("mlx.core")
    _is_broken |= mx is not None and mx.get_active_memory() + mx.get_peak_memory() > 0


if hasattr(os, "register_at_fork"):  # Windows has no fork.
    os.register_at_fork(after_in_child=_check_mlx)
