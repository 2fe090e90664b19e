"""The live viewer: a notebook widget to watch a scene in training and to fly around in it."""

from typing import TYPE_CHECKING, Any

from nerfmac.common.installing import install

if TYPE_CHECKING:
    from nerfmac.app.viewer.widget import Viewer as Viewer


INSTALL = install("notebook")
"""The command that installs the widget's packages."""


def __getattr__(name: str) -> Any:
    if name != "Viewer":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Imported here: only the widget needs the notebook's packages.
    try:
        from nerfmac.app.viewer.widget import Viewer
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("nerfmac"):
            raise
        return _uninstalled(error.name)
    return Viewer


def _uninstalled(package: str) -> type:
    """A class `Viewer` that cannot be instantiated, for when `package` is missing.

    It lets `hasattr`, `import *` and `help` work.
    """

    class Viewer:
        __doc__ = f"The live viewer; it needs: {INSTALL}"

        def __init__(self, *_: Any, **__: Any) -> None:
            message = f"{package} is not installed; the viewer needs the extra notebook: {INSTALL}"
            raise ModuleNotFoundError(message, name=package)

    return Viewer
