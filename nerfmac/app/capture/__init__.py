"""Creation of a scene from a video or photos. Camera poses are estimated with structure from
motion."""

from nerfmac.app.capture.capture import *
from nerfmac.app.capture.findings import *
