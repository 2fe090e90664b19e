"""Small copies of the training photos for the frusta of the page."""

from collections.abc import Iterator

import numpy as np

from nerfmac.app.run import Run
from nerfmac.app.scenes.images import decode_thumbnail
from nerfmac.app.viewer.screen_image import encode_jpeg

SIDE = 192  # Maximum side length in pixels.
QUALITY = 75  # JPEG quality.


def thumbnails(run: Run, background: tuple[float, float, float]) -> Iterator[bytes]:
    """Yield a JPEG file for each training photo. `background` is an sRGB color in [0, 1] behind
    transparent photos."""
    for frame in run.images().splits["train"]:
        pixels = decode_thumbnail(frame.image, SIDE, upright=frame.is_upright)
        if pixels.shape[2] == 4:
            alpha = pixels[..., 3:] / np.float32(255)
            behind = 255.0 * np.array(background, np.float32)
            pixels = (alpha * pixels[..., :3] + (1.0 - alpha) * behind + 0.5).astype(np.uint8)
        yield encode_jpeg(pixels, QUALITY)
