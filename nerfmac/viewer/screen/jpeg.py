"""Pictures as the page gets them."""

from __future__ import annotations

from io import BytesIO

import numpy as np
from PIL import Image

PADDED = 2**16
"""Bytes of a message, at least.

Jupyter's server leaves Nagle's algorithm on: what does not fill a TCP segment waits for the other
side's delayed acknowledgement, 40 ms. The loopback's segments are just shorter than this.
"""


def encoded(rgb: np.ndarray, quality: int) -> bytes:
    """uint8 (h, w, 3) as JPEG of `quality` in 1..95."""
    buffer = BytesIO()
    Image.fromarray(rgb).save(buffer, "JPEG", quality=quality)
    return buffer.getvalue()


def padded(data: bytes) -> list[bytes]:
    """`data`, and whatever makes a message of it that is sent at once."""
    missing = PADDED - len(data)
    return [data, bytes(missing)] if missing > 0 else [data]
