"""Inspection of a scene before training: its contents, and possible problems."""

from nerfmac.app.inspection.cameras import Comparison, compare_cameras
from nerfmac.app.inspection.inspection import Inspection, inspect_scene, training_findings

__all__ = ["Comparison", "Inspection", "compare_cameras", "inspect_scene", "training_findings"]
