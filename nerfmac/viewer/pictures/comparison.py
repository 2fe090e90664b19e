"""`Comparison`: a photograph of the training views beside what the field shows from there."""

from __future__ import annotations

from dataclasses import dataclass

import mlx.core as mx
import numpy as np
import numpy.typing as npt
from PIL import Image

from nerfmac.common.checks import InputError
from nerfmac.geometry.cameras import Camera
from nerfmac.geometry.colour import over
from nerfmac.rendering.metrics import psnr
from nerfmac.run import Run
from nerfmac.scenes.pictures import decode


@dataclass(frozen=True, eq=False)
class Comparison:
    """Training view `index`. The page lays the two pictures over each other."""

    index: int
    name: str
    camera: Camera
    photograph: npt.NDArray[np.uint8]  # (h, w, 3), sRGB, over the background

    @classmethod
    def of(cls, run: Run, index: int, background: tuple[float, float, float]) -> Comparison:
        """Read view `index`; raises `InputError` if it or its picture is not there."""
        frames = run.pictures().splits["train"]
        if not 0 <= index < len(frames):
            raise InputError(f"training view {index} is not there; the scene has {len(frames)}")
        frame, has_alpha = frames[index], run.pictures().has_alpha
        pixels = decode(frame.picture, 4 if has_alpha else 3, frame.name)
        if has_alpha:
            blend = run.config.train.blend
            mixed = over(mx.array(pixels / np.float32(255)), mx.array(background), blend)
            pixels = (np.array(mixed) * 255.0 + 0.5).astype(np.uint8)
        return cls(index, frame.name, run.cameras[index], pixels)

    def psnr(self, rgb: npt.NDArray[np.uint8]) -> float:
        """How close `rgb` (h, w, 3) comes, in dB, to the photograph at its size."""
        height, width = rgb.shape[:2]
        target = self.photograph
        if target.shape != rgb.shape:
            resized = Image.fromarray(target).resize((width, height), Image.Resampling.BOX)
            target = np.asarray(resized)
        return psnr(rgb / np.float32(255), target / np.float32(255))
