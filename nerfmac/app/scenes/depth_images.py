"""Depth images: files next to photos in which a depth sensor has stored distances, and their
decoding.

A depth image covers the same area as its photo, with another resolution, and its values are depths
along the optical axis. The value 0 means that the depth is unknown. A confidence image has the size
of its depth image.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image

from nerfmac.app.scenes.images import UNREADABLE, same_aspect
from nerfmac.common import Float32Array, InputError
from nerfmac.geometry import Lens, along_rays

SENSOR_RANGE = 5.0
"""Maximum distance in meters that the LiDAR of a phone or a structured-light camera measures
reliably (Luetzenburg et al. 2021)."""
LEVELS = 2  # Highest confidence of ARKit. The levels are 0 (low), 1 (medium), and 2 (high).
MILLIMETER = 1e-3
PIXEL_FILES = (".png", ".tif", ".tiff")
EXTENSIONS = (".exr", ".png", ".npy", ".tiff", ".tif", ".depth")
"""File extensions of depth images, in the order of the search."""
MAX_CACHED = 2**27
"""Maximum number of bytes of the decoded depth images in memory. Depth images are used several
times: to find out their unit, to place the scene, for findings, and for training."""
_cached: dict[tuple[Path, Any, type, int], npt.NDArray[Any]] = {}


class DepthReading(NamedTuple):
    """Interpretation of the values in depth images that differs from the scene files: a factor of
    all lengths, distances along the rays instead of depths along the optical axis, and the smallest
    stored value that marks unknown depth, or None."""

    factor: float = 1.0
    along_rays: bool = False
    marker: float | None = None

    def __str__(self) -> str:
        unit = f"with all depths multiplied by {self.factor:.4g}" if self.factor != 1.0 else ""
        kind = "as distances along the rays instead of depths along the optical axis"
        return " and ".join(filter(None, (unit, kind if self.along_rays else "")))


AS_STORED = DepthReading()


@dataclass(frozen=True)
class DepthImage:
    """Depth image of a photo, as a file.

    Attributes:
        path: EXR file, PNG or TIFF file with 16 bits or floats, .npy file, or the LZFSE data of a
            Record3D archive.
        unit: Length of the stored value 1.
        confidence: Image with the confidence of each pixel, or None.
        sure: Value of the highest confidence in the confidence image.
        farthest: Maximum distance that the sensor measures reliably.
        size: Width and height of a file without a header.
        along_rays: Whether values are distances along the rays.
        marker: Smallest stored value that marks unknown depth, or None.

    Lengths are in the units of the camera poses.
    """

    path: Path
    unit: float = 1.0
    confidence: Path | None = None
    sure: int = LEVELS
    farthest: float = float("inf")
    size: tuple[int, int] | None = None
    along_rays: bool = False
    marker: float | None = None

    def read_as(self, reading: DepthReading) -> DepthImage:
        """Return a copy with another interpretation of its values."""
        unit, along_rays, marker = self.unit * reading.factor, reading.along_rays, reading.marker
        return replace(self, unit=unit, along_rays=along_rays, marker=marker)

    def scaled(self, factor: float) -> DepthImage:
        """Return a copy with lengths in units that are smaller by `factor`."""
        return replace(self, unit=factor * self.unit, farthest=factor * self.farthest)

    def along_axis(self, lens: Lens) -> tuple[Float32Array, Float32Array]:
        """Return the depth (h, w) along the optical axis, and the confidence (h, w) in [0, 1]. Both
        are 0 where the depth is unknown. `lens` contains the intrinsics of the photo."""
        photo, values = lens.size, _values(self.path, self.size, np.float32)
        height, width = values.shape
        if not same_aspect((width, height), photo):
            advice = "the depth image must show the same area as the photo"
            if same_aspect((height, width), photo):
                advice = "the depth image is rotated or its axes are swapped; rotate it"
            other = f"its photo has {photo[0]}x{photo[1]}"
            raise InputError(f"{self.path} has {width}x{height} pixels, but {other}; {advice}")
        values = values.astype(np.float32)
        depth = np.nan_to_num(values * np.float32(self.unit), posinf=0.0)
        known = (depth > 0) & (depth <= self.farthest)
        if self.marker is not None:
            known &= values < self.marker
        confidence = np.ones_like(depth)
        if self.confidence is not None:
            levels = _values(self.confidence, self.size, np.uint8)
            if levels.shape != depth.shape:
                found = f"{self.confidence} has {levels.shape[1]}x{levels.shape[0]} pixels"
                raise InputError(f"{found}; expected {width}x{height}, the size of its depth image")
            confidence = np.minimum(levels.astype(np.float32) / self.sure, 1.0)
        if self.along_rays:
            depth /= np.maximum(along_rays(np.ones_like(depth), lens), np.float32(1.0))
        return np.where(known, depth, 0.0), np.where(known, confidence, 0.0)


def stored_values(depth: DepthImage) -> Float32Array:
    """Return the values (h, w) of a depth image, and 0 where the depth is unknown."""
    values = _values(depth.path, depth.size, np.float32).astype(np.float32)
    known = np.isfinite(values) & (values * np.float32(depth.unit) <= depth.farthest)
    return np.where(known, values, 0.0)


def is_depth_map(path: Path) -> bool:
    """Return whether a PNG or TIFF file has one channel of at least 16 bits, unlike photos."""
    if path.suffix.lower() in PIXEL_FILES:
        with suppress(*UNREADABLE), Image.open(path, formats=("PNG", "TIFF")) as image:
            return image.mode[0] in "IF"
    return False


def depth_beside(folder: Path, stem: str, **attributes: Any) -> DepthImage | None:
    """Return the depth image with the file name `stem` in a folder, or None if it does not exist.
    `attributes` are the attributes of `DepthImage`."""
    paths = (folder / f"{stem}{extension}" for extension in EXTENSIONS)
    path = next((path for path in paths if path.is_file()), None)
    return None if path is None else DepthImage(path, **attributes)


def phone_depth(folder: Path, stem: str, sure: int = LEVELS) -> DepthImage | None:
    """Return the depth image in millimeters in the folder `depth` of a phone capture, with its
    confidence in the folder `confidence`, or None if it does not exist."""
    depth = depth_beside(folder / "depth", stem, unit=MILLIMETER, sure=sure, farthest=SENSOR_RANGE)
    confidence = existing(folder / "confidence" / f"{stem}.png")
    return None if depth is None else replace(depth, confidence=confidence)


def existing(path: Path) -> Path | None:
    """Return `path` if it is a file, and otherwise None."""
    return path if path.is_file() else None


def _values(path: Path, size: tuple[int, int] | None, kind: type[np.generic]) -> npt.NDArray[Any]:
    """Return the stored values (h, w) of a depth image or a confidence image. They are cached."""
    key = path, size, kind, path.stat().st_mtime_ns if path.is_file() else 0
    values = _cached.get(key)
    if values is None:
        values = _decoded(path, size, kind)
        if values.nbytes + sum(each.nbytes for each in list(_cached.values())) > MAX_CACHED:
            _cached.clear()
        _cached[key] = values
    return values


def _decoded(path: Path, size: tuple[int, int] | None, kind: type[np.generic]) -> npt.NDArray[Any]:
    try:
        if path.suffix.lower() == ".exr":
            values = _exr(path)
        elif path.suffix.lower() == ".npy":
            values = np.load(path, allow_pickle=False)
        elif size is not None:
            values = _lzfse(path, size, kind)
        else:
            with Image.open(path, formats=("PNG", "TIFF")) as image:
                values = np.asarray(image)
        if values.ndim != 2 or values.dtype.kind not in "iuf":
            found = f"values of the type {values.dtype} and the shape {values.shape}"
            raise InputError(f"{path} has {found}; expected one number per pixel")
        if values.dtype == np.uint8 and kind is not np.uint8:
            raise InputError(f"{path} has only 8 bits per pixel; expected a depth image of 16 bits")
    except (InputError, ImportError):  # A missing decoder does not mean that the file is invalid.
        raise
    except UNREADABLE as error:
        reason = " ".join(str(error).split())
        text = f"{path} is not a readable depth image: {reason}; replace or remove it"
        raise InputError(text) from error
    return values


def _exr(path: Path) -> npt.NDArray[Any]:
    """Return the depth in an OpenEXR file: its only channel, or the channel Z, or red."""
    import OpenEXR

    with OpenEXR.File(str(path), separate_channels=True) as file:
        channels = {name: np.array(channel.pixels) for name, channel in file.channels().items()}
    if len(channels) == 1:
        return next(iter(channels.values()))
    for name in ("Z", "Y", "R"):
        if name in channels:
            return channels[name]
    raise InputError(f"{path} has the channels {', '.join(channels)}; expected Z, Y, or R")


def _lzfse(path: Path, size: tuple[int, int], kind: type[np.generic]) -> npt.NDArray[Any]:
    """Return the numbers in an LZFSE file of a Record3D archive, in row-major order."""
    import lzfse

    width, height = size
    values = np.frombuffer(lzfse.decompress(path.read_bytes()), kind)
    if len(values) != width * height:
        raise InputError(f"{path} contains {len(values)} values; expected {width}x{height}")
    return values.reshape(height, width)
