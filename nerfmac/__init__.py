"""nerfmac: neural radiance fields on Apple GPUs, NVIDIA GPUs, and CPUs.

scene = nerfmac.load_scene("path/to/scene")
run = nerfmac.train(scene, goal=nerfmac.Goal(seconds=60))
image = run.render(run.orbit(frames=1)[0])

In a notebook, `nerfmac.Viewer(scene)` trains on the scene and displays renderings during training.
The viewer requires the extra `notebook`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nerfmac.public import *  # noqa: F403 - the names for editors and type checkers
else:  # hidden from type checkers, which would otherwise accept any misspelled attribute

    def __dir__() -> list[str]:
        return sorted(__getattr__("__all__"))

    def __getattr__(name: str) -> Any:
        if name == "__version__":
            from nerfmac.version import version  # here, `version` is the submodule

            return version()
        # The public names are imported on first use: importing MLX and NumPy takes a second, and
        # `nerfmac --help` needs neither.
        if name.startswith("__") and name != "__all__":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        public = import_module("nerfmac.public")
        if name in globals():  # a submodule of nerfmac, loaded by the import above
            return globals()[name]
        if name != "__all__" and name not in public.__all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(public, name)
