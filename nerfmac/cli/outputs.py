"""What the verbs write: pictures, videos and a run's figures."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from nerfmac.backend import current_device
from nerfmac.backend.machine import machine
from nerfmac.backend.memory import active_memory_bytes, peak_memory_bytes
from nerfmac.backend.variants import variants_here
from nerfmac.common.files import appearing
from nerfmac.film import film
from nerfmac.geometry.cameras import Camera
from nerfmac.geometry.lenses import Lens
from nerfmac.rendering.evaluation import ViewQuality, measured
from nerfmac.rendering.pace import seconds_per_pixel
from nerfmac.rendering.renderer import Picture
from nerfmac.run import Run
from nerfmac.scenes.options import described

log = logging.getLogger("nerfmac")

TURNTABLE_SECONDS = 4.0
TURNTABLE_FRAMES = 48
FEWEST_FRAMES = 24
"""Frames of the shortest turntable, 6 a second; with time for fewer there is none."""
TURNTABLE_SIZE = 256
"""Pixels of a turntable's longer side, at most, on a CPU; elsewhere the photographs' size."""
TRIALS = 4
"""Frames of a turntable that are rendered small, to know how long all of them take."""
SMALLEST_TURNTABLE = 192
"""Pixels of the longer side of the smallest turntable; with time for fewer there is none."""


def to_bytes(picture: Picture) -> np.ndarray:
    """uint8 from [0, 1], rounded."""
    return (np.clip(picture, 0.0, 1.0) * 255.0 + 0.5).astype(np.uint8)


def save_turntable(path: Path, run: Run, seconds: float) -> None:
    """A short video on the path around the scene, to be rendered in about so many `seconds`.

    Where time is short frames are smaller, then fewer. Where it is too short for a film worth
    looking at, there is none, and an older one is removed. Either is logged.
    """
    lens = run.scene.cameras[0].lens
    longer = max(lens.width, lens.height)
    full = min(1.0, TURNTABLE_SIZE / longer) if current_device() == "cpu" else 1.0
    some = run.orbit(TRIALS, _scaled(lens, full))
    pixels = seconds / seconds_per_pixel(run.renderer(), some)
    fitting = math.sqrt(pixels / (TURNTABLE_FRAMES * lens.width * lens.height))
    scale = min(full, max(fitting, SMALLEST_TURNTABLE / longer))
    count = min(int(pixels / (scale**2 * lens.width * lens.height)), TURNTABLE_FRAMES)
    if count < FEWEST_FRAMES:
        path.unlink(missing_ok=True)
        log.info(
            "as time is short, there is no %s; `nerfmac render %s` renders a film",
            *(path.name, path.parent),
        )
        return
    cameras = run.orbit(count, _scaled(lens, scale))
    if scale < full or count < TURNTABLE_FRAMES:
        size = cameras[0].lens
        given = path.name, count, size.width, size.height
        log.info("as time is short, %s has %d frames of %dx%d pixels", *given)
    film(run, cameras, path, fps=count / TURNTABLE_SECONDS, overwrite=True)


def save_preview(path: Path, run: Run, *, has_test: bool, seconds: float) -> None:
    """A picture of the run: a test view beside its photograph, or else a view from the path.

    It is smaller than the photographs if it would take more than `seconds`; that is logged.
    """
    views = run.views("test") if has_test else None
    camera = views.cameras[0] if views else run.orbit(1)[0]
    lens = camera.lens
    needed = seconds_per_pixel(run.renderer(), [camera]) * lens.width * lens.height
    size = _scaled(lens, min(1.0, math.sqrt(seconds / needed)))
    if size != (lens.width, lens.height):
        given = path.name, *size, lens.width, lens.height
        log.info("as time is short, %s shows %dx%d pixels and not %dx%d", *given)
    picture = to_bytes(run.render(Camera(lens.scaled(*size), camera.pose)).colour)
    if views:
        truth = to_bytes(views.photograph(0, blend=run.config.train.blend))
        resized = Image.fromarray(truth).resize(size, Image.Resampling.BOX)
        picture = np.concatenate([picture, np.asarray(resized)], axis=1)
    with appearing(path) as partial:
        Image.fromarray(picture).save(partial)


def _scaled(lens: Lens, scale: float) -> tuple[int, int]:
    """Width and height of the lens's picture, scaled, but not to nothing."""
    return max(round(lens.width * scale), 2), max(round(lens.height * scale), 2)


def quality(views: Sequence[ViewQuality], of: int, background: str, split: str) -> dict[str, Any]:
    """The mean quality of a split's views, as JSON values; null where there are none.

    `of`: how many views the split has. `views` counts those that were compared, and `row_fraction`
    is the part of their rows.
    """
    mean = {
        name: float(np.mean([getattr(view, name) for view in views])) if views else None
        for name in ("psnr", "ssim", "row_fraction")
    }
    return {
        f"psnr_{split}": mean["psnr"],
        f"ssim_{split}": mean["ssim"],
        f"{split}_views": len(views),
        f"{split}_views_in_scene": of,
        f"{split}_row_fraction": mean["row_fraction"],
        f"{split}_measured": measured(views, of, split),
        "background": background,
    }


def summary(
    run: Run, views: Sequence[ViewQuality], of: int, *, wall_seconds: float
) -> dict[str, Any]:
    """A run's figures, as `metrics.json` holds them; times in seconds, PSNR in dB.

    `views` are those evaluated, `of` is how many test views there are.
    """
    return {
        **machine(),
        "preset": run.config.preset,
        "seed": run.config.seed,
        "ranks": run.trainer.ranks.size,
        "steps": run.state.step,
        "skipped_steps": run.skipped_steps,
        "train_seconds": run.state.train_seconds,
        "kernel_build_seconds": run.build_seconds,
        "variants": variants_here(),
        "wall_seconds": wall_seconds,
        "train_views": len(run.scene.cameras),
        "split": run.scene.options.split,
        "held_out": described(run.scene.options.split),
        "extent": run.scene.extent,
        **quality(views, of, "white", "test"),
        "refined": run.refined,
        "psnr_curve": [list(point) for point in run.curve],
        "rays_per_second": run.rates[0],
        "samples_per_second": run.rates[1],
        "traces": run.trainer.traces.counts.total(),
        "needless_traces": run.trainer.traces.needless,
        "peak_memory_bytes": peak_memory_bytes(),
        "active_memory_bytes": active_memory_bytes(),
    }
