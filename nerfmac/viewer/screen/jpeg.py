"""Pictures as the page gets them."""

from __future__ import annotations

from io import BytesIO

import numpy as np
from PIL import Image

PADDED = 2**16
"""Least bytes of a message.

Jupyter's server uses Nagle's algorithm: data that does not fill a TCP segment waits 40 ms for the
other side's delayed acknowledgement. The loopback's segments are slightly shorter than this.
"""


def encoded(rgb: np.ndarray, quality: int) -> bytes:
    """uint8 (h, w, 3) as JPEG of `quality` in 1..95."""
    buffer = BytesIO()
    Image.fromarray(rgb).save(buffer, "JPEG", quality=quality)
    return buffer.getvalue()


def padded(data: bytes) -> list[bytes]:
    """`data`, and padding if it needs any for the message to be sent at once."""
    missing = PADDED - len(data)
    return [data, bytes(missing)] if missing > 0 else [data]
