"""Camera paths: an orbit fitted to the training cameras, and smooth paths through keyframes."""

from nerfmac.paths.camera_path import CameraPath as CameraPath
from nerfmac.paths.camera_path import Keyframe as Keyframe
from nerfmac.paths.orbit import orbit as orbit
