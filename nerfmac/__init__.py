"""nerfmac: neural radiance fields on Apple GPUs, NVIDIA GPUs and plain CPUs.

scene = nerfmac.load_scene("photographs/")
run = nerfmac.train(scene, seconds=60)
picture = run.render(run.orbit(frames=1)[0])

`nerfmac.Viewer(scene)` shows it in a notebook while it trains; this needs the extra `notebook`.
"""

from typing import TYPE_CHECKING, Any

from nerfmac.checks import InputError as InputError
from nerfmac.config import Config as Config
from nerfmac.geometry.cameras import Camera as Camera
from nerfmac.geometry.lenses import Lens as Lens
from nerfmac.run import Run as Run
from nerfmac.run import train as train
from nerfmac.scenes import Scene as Scene
from nerfmac.scenes import builtin_scene_path as builtin_scene_path
from nerfmac.scenes import load_scene as load_scene
from nerfmac.version import __version__ as __version__

if TYPE_CHECKING:
    from nerfmac.viewer import Viewer as Viewer


def __getattr__(name: str) -> Any:
    if name != "Viewer":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Only now: all else does without the notebook's packages.
    from nerfmac.viewer import Viewer

    return Viewer
