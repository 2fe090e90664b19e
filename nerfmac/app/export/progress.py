"""Progress of an export, as a progress bar or for the caller of the export."""

from __future__ import annotations

from collections.abc import Callable

from tqdm.auto import tqdm

Progress = bool | Callable[[str, float], None]
"""Whether to show a progress bar, or a function that receives the name of the current stage and its
completed fraction. An exception of the function ends the export."""


class Stage:
    """Context manager for a stage of `total` steps of an export."""

    def __init__(self, total: int, name: str, unit: str, progress: Progress) -> None:
        self._total, self._done, self._name = total, 0, name
        self._report = progress if callable(progress) else None
        self._bar = tqdm(total=total, desc=name, unit=unit, disable=progress is not True)

    def __enter__(self) -> Stage:
        self.update(0)
        return self

    def update(self, steps: int = 1) -> None:
        """Record completed steps."""
        self._done += steps
        self._bar.update(steps)
        if self._report is not None:
            self._report(self._name, self._done / max(self._total, 1))

    def __exit__(self, *_error: object) -> None:
        self._bar.close()
