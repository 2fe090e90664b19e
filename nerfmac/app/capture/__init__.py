"""Creation of a scene from a video or photos. Camera poses are estimated with structure from
motion."""

from nerfmac.app.capture.capture import (
    capture_scene as capture_scene,
    captured as captured,
    stored_verdict as stored_verdict,
)
