"""From a video or photographs to a scene: pictures chosen, cameras found, the scene placed."""

from nerfmac.capture.capture import capture_scene, captured

__all__ = ["capture_scene", "captured"]
