"""`nerfmac capture`: estimate the camera poses of photos or video frames, and write a scene."""

from __future__ import annotations

import signal

from nerfmac.app.capture import capture_scene
from nerfmac.app.cli.options import Capture


def main(arguments: Capture) -> int:
    """Run `nerfmac capture` and return the exit code."""
    # Handle SIGTERM like Ctrl-C, so that the capture can be resumed.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    print(capture_scene(**vars(arguments)))
    return 0
