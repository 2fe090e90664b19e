"""Structure from motion: create a scene with camera poses from a video or photos."""

from nerfmac.app.capture.capture import capture_scene, captured

__all__ = ["capture_scene", "captured"]
