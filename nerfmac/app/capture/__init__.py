"""Structure from motion: a video or photos in, a scene with its cameras out."""

from nerfmac.app.capture.capture import capture_scene, captured

__all__ = ["capture_scene", "captured"]
