"""Inspection of a scene before training: its contents, and possible problems."""

from nerfmac.app.inspection.inspection import Inspection as Inspection
from nerfmac.app.inspection.inspection import inspect_scene as inspect_scene
from nerfmac.app.inspection.inspection import training_findings as training_findings
