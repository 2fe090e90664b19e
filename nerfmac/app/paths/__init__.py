"""Camera paths: moves around a scene, tours along cameras, and paths through keyframes."""

from nerfmac.app.paths.camera_path import CameraPath as CameraPath
from nerfmac.app.paths.keyframe import Keyframe as Keyframe
from nerfmac.app.paths.moves import (
    MOVES as MOVES,
    SPLITS as SPLITS,
    figure_of_eight as figure_of_eight,
    orbit as orbit,
    spiral as spiral,
    tour as tour,
)
from nerfmac.app.paths.rig import center_of as center_of
from nerfmac.app.paths.view import View as View
