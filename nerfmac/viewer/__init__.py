"""The live viewer: a notebook widget to watch a scene while it trains, and to fly around in it."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nerfmac.viewer.widget import Viewer as Viewer


def __getattr__(name: str) -> Any:
    if name != "Viewer":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Only now: all but the widget does without the notebook's packages.
    from nerfmac.viewer.widget import Viewer

    return Viewer
