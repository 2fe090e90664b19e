"""What the verbs write: pictures, videos and a run's figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from tqdm.auto import tqdm

from nerfmac.backend import current_device
from nerfmac.backend.machine import machine, peak_memory_bytes
from nerfmac.files import appearing
from nerfmac.geometry.cameras import Camera
from nerfmac.rendering.evaluation import BACKGROUNDS, ViewQuality
from nerfmac.rendering.renderer import Picture
from nerfmac.run import Run
from nerfmac.video import write_video

TURNTABLE_SECONDS = 4.0
FRAMES_PER_SECOND = 12.0
TURNTABLE_SIZE = 256
"""Pixels of a turntable's longer side, at most, on a CPU; elsewhere the photographs' size."""


def to_bytes(picture: Picture) -> np.ndarray:
    """uint8 from [0, 1], rounded."""
    return (np.clip(picture, 0.0, 1.0) * 255.0 + 0.5).astype(np.uint8)


def frames(run: Run, cameras: Sequence[Camera], background: str = "white") -> Iterator[np.ndarray]:
    """Render the cameras' pictures, uint8 (h, w, 3), with a bar."""
    renderer = run.renderer()
    for camera in tqdm(cameras, "frames", unit="frame"):
        yield to_bytes(renderer.render(camera, BACKGROUNDS[background]).colour)


def save_turntable(path: Path, run: Run) -> None:
    """A short video on the path around the scene."""
    lens = run.scene.cameras[0].lens
    scale = 1.0
    if current_device() == "cpu":
        scale = min(1.0, TURNTABLE_SIZE / max(lens.width, lens.height))
    size = round(lens.width * scale), round(lens.height * scale)
    count = round(TURNTABLE_SECONDS * FRAMES_PER_SECOND)
    write_video(path, frames(run, run.orbit(count, size)), FRAMES_PER_SECOND)


def save_preview(path: Path, run: Run, *, has_test: bool) -> None:
    """A picture of the run: a test view beside its photograph, or else a view from the path."""
    if has_test:
        views = run.pictures().views("test")
        rendered = run.render(views.cameras[0]).colour
        truth = views.photograph(0, blend=run.config.train.blend)
        picture = np.concatenate([rendered, truth], axis=1)
    else:
        picture = run.render(run.orbit(1)[0]).colour
    with appearing(path) as partial:
        Image.fromarray(to_bytes(picture)).save(partial)


def quality(views: Sequence[ViewQuality], background: str, split: str) -> dict[str, Any]:
    """The mean quality of a split's views, as JSON values; null where there are none."""
    mean = {
        name: float(np.mean([getattr(view, name) for view in views])) if views else None
        for name in ("psnr", "ssim")
    }
    return {
        f"psnr_{split}": mean["psnr"],
        f"ssim_{split}": mean["ssim"],
        f"{split}_views": len(views),
        "background": background,
    }


def summary(run: Run, views: Sequence[ViewQuality], *, wall_seconds: float) -> dict[str, Any]:
    """A run's figures, as `metrics.json` holds them; times in seconds, PSNR in dB."""
    return {
        **machine(),
        "preset": run.config.preset,
        "seed": run.config.seed,
        "steps": run.state.step,
        "train_seconds": run.state.train_seconds,
        "kernel_build_seconds": run.build_seconds,
        "wall_seconds": wall_seconds,
        **quality(views, "white", "test"),
        "psnr_curve": [list(point) for point in run.curve],
        "rays_per_second": run.rates[0],
        "samples_per_second": run.rates[1],
        "peak_memory_bytes": peak_memory_bytes(),
    }
