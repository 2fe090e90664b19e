"""Public names of nerfmac, available after `import nerfmac`. This module requires MLX."""

from typing import TYPE_CHECKING, Any

from nerfmac.common import InputError, why_no_mlx

try:
    import mlx.core  # noqa: F401 - the modules imported below require MLX
except ImportError as error:
    if why := why_no_mlx(error):
        raise ImportError(why) from None
    raise

from nerfmac.app.capture import capture_scene
from nerfmac.app.inspection import Inspection, inspect_scene
from nerfmac.app.paths import CameraPath, Keyframe
from nerfmac.app.run import Run, resume, train
from nerfmac.app.scenes import Frame, Scene, builtin_scene_path, load_scene
from nerfmac.app.snapshots import load_snapshot
from nerfmac.backend import Kernel, choose_device, limit_memory
from nerfmac.config import Config
from nerfmac.config.scenes import CaptureOptions
from nerfmac.fields.encoded import EncodedField
from nerfmac.fields.encodings import Encoding
from nerfmac.fields.field import Field, FieldOutput, ParameterSpec
from nerfmac.geometry import Bounds, Camera, Lens, Rays, Samples, Views
from nerfmac.ops.composite import Composited
from nerfmac.rendering.evaluation import Evaluation, ViewQuality
from nerfmac.rendering.renderer import Rendered, Renderer
from nerfmac.sampling.sampler import Sampled, Sampler
from nerfmac.training.goal import Goal, Report
from nerfmac.training.measured import DivergedError
from nerfmac.training.method import Method
from nerfmac.training.model import Model
from nerfmac.training.trainer import Trainer

if TYPE_CHECKING:
    from nerfmac.app.viewer import Viewer

    __version__: str  # `__getattr__` of nerfmac returns it without importing this module

__all__ = [
    "Bounds",
    "Camera",
    "CameraPath",
    "CaptureOptions",
    "Composited",
    "Config",
    "DivergedError",
    "EncodedField",
    "Encoding",
    "Evaluation",
    "Field",
    "FieldOutput",
    "Frame",
    "Goal",
    "InputError",
    "Inspection",
    "Kernel",
    "Keyframe",
    "Lens",
    "Method",
    "Model",
    "ParameterSpec",
    "Rays",
    "Rendered",
    "Renderer",
    "Report",
    "Run",
    "Sampled",
    "Sampler",
    "Samples",
    "Scene",
    "Trainer",
    "ViewQuality",
    "Viewer",
    "Views",
    "__version__",
    "builtin_scene_path",
    "capture_scene",
    "choose_device",
    "inspect_scene",
    "limit_memory",
    "load_scene",
    "load_snapshot",
    "resume",
    "train",
]


def __getattr__(name: str) -> Any:
    if name != "Viewer":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Imported lazily: only the viewer needs the notebook packages.
    from nerfmac.app.viewer import Viewer

    return Viewer
