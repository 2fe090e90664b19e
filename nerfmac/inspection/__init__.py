"""A scene looked at before it is trained on: what it has, and what looks wrong."""

from nerfmac.inspection.inspection import Inspection, inspect_scene

__all__ = ["Inspection", "inspect_scene"]
