"""Progress bars that appear only if the work takes long."""

from __future__ import annotations

from typing import Any

DELAY = 1.5
"""Time in seconds after which a progress bar appears."""


def delayed_progress(progress: bool) -> dict[str, Any]:
    """Return tqdm arguments for a bar that appears after `DELAY` seconds, and only in a
    terminal."""
    return {"delay": DELAY, "leave": False, "disable": None if progress else True}
