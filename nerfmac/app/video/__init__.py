"""Rendering of a run along a camera path. The output is a video or a folder of numbered files."""

from nerfmac.app.video.encoding import *
from nerfmac.app.video.frames import *
from nerfmac.app.video.rendering import *
