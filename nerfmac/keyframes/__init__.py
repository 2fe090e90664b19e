"""Camera paths: smooth through keyframes, walked at constant speed, kept in JSON files."""

from nerfmac.keyframes.path import CameraPath, Keyframe

__all__ = ["CameraPath", "Keyframe"]
