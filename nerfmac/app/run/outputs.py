"""`Outputs`: `scalars.jsonl`, `metrics.json` and `preview.png` in the folder of a trained run."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from nerfmac.app.run.messages import log_memory
from nerfmac.app.run.run import Run
from nerfmac.app.run.scalars import Scalars
from nerfmac.app.run.surfaces import surface_quality
from nerfmac.app.scenes.options import described
from nerfmac.backend.machine import machine
from nerfmac.backend.memory import active_memory_bytes, peak_memory_bytes
from nerfmac.backend.variants import variants_here
from nerfmac.common.files import appearing, write_json
from nerfmac.common.json_reader import read_fields
from nerfmac.geometry.cameras import Camera
from nerfmac.geometry.lenses import Lens
from nerfmac.refine.report import refinement_summary
from nerfmac.rendering.evaluation import Evaluation, ViewQuality, measured
from nerfmac.rendering.pace import seconds_per_pixel
from nerfmac.rendering.renderer import to_bytes
from nerfmac.training.goal import Report

log = logging.getLogger("nerfmac")


SPARE_SECONDS = 28.0
"""Seconds that a whole call of `train` may take in addition to twice the training time."""

LEAST_SECONDS = 5.0
"""Minimum time for an output, in seconds, even if loading and compiling took all spare time."""

EVALUATION, PREVIEW = 1 / 2, 1 / 4
"""Fractions of the time left that evaluation and preview may take."""


class Outputs:
    """Writes the files that a training adds to a run's folder; nothing for a run in memory."""

    def __init__(
        self,
        run: Run,
        start: float,
        tensorboard: bool,
        on_report: Callable[[Report], None] | None,
    ) -> None:
        """`start`: `time.perf_counter()` at the start. Raises `InputError` as `Scalars` does."""
        self._run, self._start, self._on_report = run, start, on_report
        self._before = run.state.train_seconds
        self._scalars: Scalars | None = None
        if run.folder is not None:
            self._scalars = Scalars(run.folder, step=run.state.step, tensorboard=tensorboard)

    def add(self, report: Report) -> None:
        """Write a report to `scalars.jsonl`, then call `on_report`."""
        if self._scalars is not None:
            self._scalars.add(report)
        if self._on_report:
            self._on_report(report)

    def close(self) -> None:
        """Close the files."""
        if self._scalars is not None:
            self._scalars.close()

    def finish(
        self, *, all_views: bool, progress: bool, on_end: Callable[[Run, float], None] | None
    ) -> None:
        """Call `on_end`, evaluate test views, and write `preview.png` and `metrics.json`.

        Everything since `start` is to take twice the training time plus `SPARE_SECONDS`, so that
        outputs are smaller if time is short. With `all_views` the evaluation does not count.
        `on_end` gets the run and the seconds left.
        """
        log_memory("after training")
        run, folder = self._run, self._run.folder
        if folder is None or self._scalars is None:
            return
        trained = run.state.train_seconds - self._before
        deadline = self._start + 2.0 * trained + SPARE_SECONDS

        def left() -> float:
            return max(deadline - time.perf_counter(), LEAST_SECONDS)

        of = len(run.images().splits.get("test", ()))
        limit = None if all_views else EVALUATION * left()
        error: Exception | None = None
        if on_end:  # first: what it makes is what users look at
            try:
                on_end(run, left())
            except Exception as raised:
                error = raised
        begin = time.perf_counter()
        views = run.evaluate("test", seconds=limit, progress=progress) if of else []
        if all_views:
            deadline += time.perf_counter() - begin
        if views and (len(views) < of or views[0].row_fraction < 1.0):
            part = measured(views, of, "test")
            log.info("as time is short, evaluated %s; --all-views evaluates all", part)
        if refinements := refinement_summary(run.refined):
            log.info("%s", refinements)
        preview = folder / "preview.png"
        save_preview(preview, run, has_test=bool(of), seconds=PREVIEW * left())
        wall_seconds = time.perf_counter() - self._start
        figures = metrics(run, views, of, wall_seconds=wall_seconds)
        write_json(folder / "metrics.json", figures)
        self._scalars.result(run.state.step, preview, views)
        if error is not None:
            raise error


def scaled_size(lens: Lens, scale: float) -> tuple[int, int]:
    """Width and height of the lens's image times `scale`, at least 2 pixels each."""
    return max(round(lens.width * scale), 2), max(round(lens.height * scale), 2)


def save_preview(path: Path, run: Run, *, has_test: bool, seconds: float) -> None:
    """Write a rendered test view and its photo or, without test views, a view of an orbit.

    If rendering it would take more than `seconds`, the image is smaller, and the log says so.
    """
    views = run.views("test") if has_test else None
    camera = views.cameras[0] if views else run.orbit(1)[0]
    lens = camera.lens
    needed = seconds_per_pixel(run.renderer(), [camera]) * lens.width * lens.height
    size = scaled_size(lens, min(1.0, math.sqrt(seconds / needed)))
    if size != (lens.width, lens.height):
        sizes = path.name, *size, lens.width, lens.height
        log.info("as time is short, %s shows %dx%d pixels and not %dx%d", *sizes)
    view = Camera(lens.scaled(*size), camera.pose)
    image = to_bytes(run.render(view, run.scene.backdrop).color)
    if views:
        truth = to_bytes(views.photo(0, blend=run.config.train.blend))
        resized = Image.fromarray(truth).resize(size, Image.Resampling.BOX)
        image = np.concatenate([image, np.asarray(resized)], axis=1)
    with appearing(path) as partial:
        Image.fromarray(image).save(partial)


class HeldOut(NamedTuple):
    """PSNR in dB of held-out views at a step of training, and which part of them it measures."""

    psnr: float
    step: int
    measured: str

    @classmethod
    def of(cls, views: Evaluation, step: int) -> HeldOut:
        """Return the summary of an evaluation."""
        return cls(views.psnr, step, measured(views, views.of, views.split))

    @classmethod
    def read(cls, folder: Path, step: int) -> HeldOut | None:
        """Read `metrics.json` in the folder of a run at `step`; None if it has none of that step.

        Raises `InputError`.
        """
        path = folder / "metrics.json"
        if not path.is_file():
            return None
        values = read_fields(path)
        if values.count("steps", 0) != step or values.is_null("psnr_test"):
            return None
        return cls(values.number("psnr_test"), step, values.text("test_measured"))


def quality(
    views: Sequence[ViewQuality], of: int, *, background: str, split: str
) -> dict[str, Any]:
    """Mean quality of the evaluated `views` of a split, as JSON values; null without views.

    `of` is the number of views in the split. In the result, for split test, `test_views` is the
    number of evaluated views and `test_row_fraction` the fraction of their rows that was compared.
    """
    mean = {
        name: float(np.mean([getattr(view, name) for view in views])) if views else None
        for name in ("psnr", "psnr_corrected", "ssim", "row_fraction")
    }
    return {
        f"psnr_{split}": mean["psnr"],
        f"psnr_corrected_{split}": mean["psnr_corrected"],
        f"ssim_{split}": mean["ssim"],
        f"{split}_views": len(views),
        f"{split}_views_in_scene": of,
        f"{split}_row_fraction": mean["row_fraction"],
        f"{split}_measured": measured(views, of, split),
        "background": background,
    }


def metrics(
    run: Run, views: Sequence[ViewQuality], of: int, *, wall_seconds: float
) -> dict[str, Any]:
    """The JSON values of `metrics.json`; times in seconds, PSNR in dB.

    `views` are the evaluated test views; `of` is the number of all test views.
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
        "variants": variants_here(run.config),
        "wall_seconds": wall_seconds,
        "train_views": len(run.scene.cameras),
        "split": run.scene.options.split,
        "held_out": described(run.scene.options.split),
        "extent": run.scene.extent,
        **quality(views, of, background="white", split="test"),
        **surface_quality(run, *(("test", "train") if of else ("train",))),
        "refined": run.refined,
        "psnr_curve": [list(point) for point in run.curve],
        "rays_per_second": run.rates[0],
        "samples_per_second": run.rates[1],
        "traces": run.trainer.traces.counts.total(),
        "needless_traces": run.trainer.traces.needless,
        "peak_memory_bytes": peak_memory_bytes(),
        "active_memory_bytes": active_memory_bytes(),
    }


def protocol(run: Run, split: str, background: str, *, has_lpips: bool) -> dict[str, Any]:
    """How an evaluation of `split` is made; figures of another protocol are not comparable."""
    lens = run.images().views(split).cameras[0].lens
    return {
        "scene": run.scene.path,
        "split": split,
        "held_out": described(run.scene.options.split),
        "train_views": len(run.scene.cameras),
        "size": [lens.width, lens.height],
        "background": background,
        "blend": run.config.train.blend,
        "psnr": "mean of the views' PSNRs, of sRGB values in [0, 1], all pixels",
        "psnr_corrected": "likewise, after the gain and offset of each channel that fit the view's "
        "photo best by least squares, for images whose exposures differ",
        "depth": "relative errors at observations of every fifth sparse point, which training did "
        "not use; plane: fractions of pixels on the level plane of the sparse points",
        "ssim": "mean of the views' SSIMs, Gaussian window 11x11, sigma 1.5, each channel of sRGB",
        "lpips": "mean of the views' LPIPSs, version 0.1 with AlexNet, by the weights given"
        if has_lpips
        else "not computed: it needs the weights of a network, which nerfmac does not bring",
        "steps": run.state.step,
        "train_seconds": run.state.train_seconds,
    }
