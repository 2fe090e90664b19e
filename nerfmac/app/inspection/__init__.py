"""Inspection of a scene before training: its contents, and what looks wrong."""

from nerfmac.app.inspection.comparison import Comparison, compare_cameras
from nerfmac.app.inspection.inspection import Inspection, inspect_scene, training_findings

__all__ = ["Comparison", "Inspection", "compare_cameras", "inspect_scene", "training_findings"]
