"""Live viewer: a notebook widget for watching training and exploring the scene."""

from typing import TYPE_CHECKING, Any

from nerfmac.common import install

if TYPE_CHECKING:
    from nerfmac.app.viewer.widget import Viewer as Viewer


INSTALL = install("notebook")  # Command that installs the packages that the widget requires.


def __getattr__(name: str) -> Any:
    if name != "Viewer":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Imported lazily: only the widget requires the packages of the extra `notebook`.
    try:
        from nerfmac.app.viewer.widget import Viewer
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("nerfmac"):
            raise
        return _uninstalled(error.name)
    return Viewer


def _uninstalled(package: str) -> type:
    """Return a placeholder for `Viewer` that raises an exception when it is instantiated, so that
    `hasattr`, `import *`, and `help` work without `package`."""

    class Viewer:
        __doc__ = f"The live viewer, which requires: {INSTALL}"

        def __init__(self, *_: Any, **__: Any) -> None:
            raise ModuleNotFoundError(f"{package} is not installed; run {INSTALL}", name=package)

    return Viewer
