"""ICC profiles (version 2) made from primaries and a gamma, and the conversion they describe."""

import struct

import numpy as np

WHITE = (0.9642, 1.0, 0.8249)
ADOBE_RGB = ((0.60974, 0.31111, 0.01947), (0.20528, 0.62567, 0.06087), (0.14919, 0.06322, 0.74457))
"""XYZ of red, green, and blue, adapted to D50."""
SRGB = ((0.43607, 0.22249, 0.01392), (0.38515, 0.71687, 0.09708), (0.14307, 0.06061, 0.7141))


def profile(space: str, gamma: float, primaries=ADOBE_RGB, name: str = "made by a test") -> bytes:
    """The profile of a color space "RGB " or "GRAY" whose channels have a gamma."""
    curve = b"curv" + struct.pack(">IIHxx", 0, 1, round(gamma * 256))
    tags = {b"desc": _description(name), b"cprt": b"text\0\0\0\0none\0", b"wtpt": _xyz(WHITE)}
    if space == "GRAY":
        tags[b"kTRC"] = curve
    else:
        tags |= {f"{c}XYZ".encode(): _xyz(p) for c, p in zip("rgb", primaries, strict=True)}
        tags |= {f"{c}TRC".encode(): curve for c in "rgb"}
    table, body, start = b"", b"", 128 + 4 + 12 * len(tags)
    for key, content in tags.items():
        content += b"\0" * (-len(content) % 4)
        table += struct.pack(">4sII", key, start + len(body), len(content))
        body += content
    head = struct.pack(
        ">4x4xI4s4s4s12x4s4x4x4x4x8x4x", 0x02100000, b"mntr", space.encode(), b"XYZ ", b"acsp"
    )
    head += _fixed(WHITE)
    head = head.ljust(128, b"\0")
    size = start + len(body)
    return struct.pack(">I", size) + head[4:] + struct.pack(">I", len(tags)) + table + body


def to_srgb(pixels, gamma: float, primaries=ADOBE_RGB) -> np.ndarray:
    """uint8 sRGB values of pixels (..., 3) of such a color space, clipped."""
    linear = (np.asarray(pixels) / 255.0) ** gamma
    red, green, blue = (np.array(SRGB), np.array(primaries), linear)
    linear = np.clip(blue @ green @ np.linalg.inv(red), 0.0, 1.0)
    curved = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    return np.round(curved * 255.0).astype(np.uint8)


def _fixed(values) -> bytes:
    return struct.pack(">3i", *(round(value * 65536) for value in values))


def _xyz(values) -> bytes:
    return b"XYZ \0\0\0\0" + _fixed(values)


def _description(name: str) -> bytes:
    text = name.encode() + b"\0"
    return b"desc\0\0\0\0" + struct.pack(">I", len(text)) + text + b"\0" * 78
