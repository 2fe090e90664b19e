"""A scene looked at before it is trained on: what it has, and what looks wrong."""

from nerfmac.inspection.comparison import Comparison, compare_cameras
from nerfmac.inspection.folds import folds_of_training
from nerfmac.inspection.inspection import Inspection, inspect_scene

__all__ = ["Comparison", "Inspection", "compare_cameras", "folds_of_training", "inspect_scene"]
