"""Progress bars that appear only for work that takes a long time."""

from typing import Any

DELAY = 1.5  # Time in seconds after which a progress bar appears.


def delayed_progress(progress: bool) -> dict[str, Any]:
    """Return tqdm arguments for a progress bar that appears after `DELAY` seconds.

    The bar appears only in a terminal, and only if `progress` is True.
    """
    return {"delay": DELAY, "leave": False, "disable": None if progress else True}


def duration(seconds: float) -> str:
    """Format a duration, such as "40 seconds", "3 minutes" or "2.5 hours"."""
    if seconds < 90:
        return f"{max(round(seconds), 1)} second{'s' * (round(seconds) > 1)}"
    if seconds < 5400:
        return f"{round(seconds / 60)} minutes"
    return f"{seconds / 3600:.1f} hours"
