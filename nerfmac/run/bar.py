"""The progress bar of a training."""

from __future__ import annotations

from typing import Any

from tqdm.auto import tqdm


def training_bar(done: float, limit: float, unit: str, shown: bool) -> tqdm[Any]:
    """A bar from `done` up to the `limit`, in steps or seconds."""
    return tqdm(
        total=limit,
        initial=min(done, limit),
        unit=unit,
        disable=not shown,
        bar_format="{l_bar}{bar}| {n:.0f}/{total:.0f} {unit}, {remaining} left{postfix}",
    )
