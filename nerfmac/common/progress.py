"""Progress bars that appear only where work takes long."""

from __future__ import annotations

from typing import Any

DELAY = 1.5
"""Seconds of work after which its progress bar appears."""


def delayed_progress(progress: bool) -> dict[str, Any]:
    """Return tqdm's arguments for a bar that appears after DELAY seconds, in a terminal only."""
    return {"delay": DELAY, "leave": False, "disable": None if progress else True}
