"""Camera paths: moves around a scene, tours along cameras, and paths through keyframes."""

from nerfmac.app.paths.camera_path import *
from nerfmac.app.paths.moves import *
from nerfmac.app.paths.rig import *
from nerfmac.app.paths.view import *
