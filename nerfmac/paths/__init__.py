"""Camera paths: moves fitted to the training cameras, tours, smooth paths through keyframes."""

from nerfmac.paths.camera_path import CameraPath as CameraPath
from nerfmac.paths.keyframe import Keyframe as Keyframe
from nerfmac.paths.moves import MOVES as MOVES
from nerfmac.paths.moves import dolly_zoom as dolly_zoom
from nerfmac.paths.moves import figure_of_eight as figure_of_eight
from nerfmac.paths.moves import orbit as orbit
from nerfmac.paths.moves import spiral as spiral
from nerfmac.paths.rig import centre_of as centre_of
from nerfmac.paths.tour import SPLITS as SPLITS
from nerfmac.paths.tour import tour as tour
