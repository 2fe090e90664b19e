"""A scene looked at before it is trained on: what it has, and what looks wrong."""

from nerfmac.inspection.comparison import Comparison, compare_cameras
from nerfmac.inspection.inspection import Inspection, inspect_scene, training_findings

__all__ = ["Comparison", "Inspection", "compare_cameras", "inspect_scene", "training_findings"]
