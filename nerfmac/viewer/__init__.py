"""The live viewer: a notebook widget to watch a scene while it trains, and to fly around in it."""

from typing import TYPE_CHECKING, Any

from nerfmac.extras import install

if TYPE_CHECKING:
    from nerfmac.viewer.widget import Viewer as Viewer


INSTALL = install("notebook")
"""What brings the packages that the widget needs."""


def __getattr__(name: str) -> Any:
    if name != "Viewer":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Imported here: only the widget needs the notebook's packages.
    try:
        from nerfmac.viewer.widget import Viewer
    except ModuleNotFoundError as error:
        message = f"{error.name} is not installed; the viewer needs: {INSTALL}"
        raise ModuleNotFoundError(message, name=error.name) from error
    return Viewer
