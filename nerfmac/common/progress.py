"""Progress bars that appear only for work that takes a long time."""

from typing import Any

DELAY = 1.5  # Time in seconds after which a progress bar appears.


def delayed_progress(progress: bool) -> dict[str, Any]:
    """Return tqdm arguments for a progress bar that appears after `DELAY` seconds.

    The bar appears only in a terminal, and only if `progress` is True.
    """
    return {"delay": DELAY, "leave": False, "disable": None if progress else True}
