"""Inspection of a scene before training: its contents, and possible problems."""

from nerfmac.app.inspection.inspection import (
    Inspection as Inspection,
    inspect_scene as inspect_scene,
    training_findings as training_findings,
)
