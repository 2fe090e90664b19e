"""Creation of a scene from a video or photos. Camera poses are estimated with structure from
motion."""

from nerfmac.app.capture.capture import capture_scene as capture_scene
from nerfmac.app.capture.capture import captured as captured
from nerfmac.app.capture.capture import stored_verdict as stored_verdict
