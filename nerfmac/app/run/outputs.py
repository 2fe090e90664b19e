"""Writing of the output files of a training (`scalars.jsonl`, `metrics.json`, and `preview.png`),
and computation of the metrics.

The metrics of surfaces compare rendered depth with sparse points that were excluded from training.
They are defined in `nerfmac.rendering.surface_metrics`.
"""

import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from PIL import Image

from nerfmac.app.run.headline import measured_views, seconds_to_measure
from nerfmac.app.run.refinements import refinement_summary
from nerfmac.app.run.reporting import Scalars, log_memory
from nerfmac.app.run.run import Run
from nerfmac.app.run.training import Training
from nerfmac.backend import Traces, confirm, to_numpy, variants_here
from nerfmac.backend.machine import machine
from nerfmac.backend.memory import active_memory_bytes, peak_memory_bytes
from nerfmac.common import FAR_DISTANCE, Float64Array, InputError, appearing, duration, write_json
from nerfmac.common.json_reader import Fields, as_json, read_fields
from nerfmac.config.scenes import described
from nerfmac.geometry import Camera, Cameras, Rays, distances_of, rays_through
from nerfmac.geometry.ground_planes import GroundPlane, scene_ground_plane
from nerfmac.ranks import current_ranks
from nerfmac.rendering.evaluation import Evaluation, ViewQuality, measured
from nerfmac.rendering.renderer import Renderer, to_bytes
from nerfmac.rendering.surface_metrics import depth_errors
from nerfmac.training.goal import Report

log = logging.getLogger("nerfmac")


EVALUATION = 60.0
"""Maximum time in seconds for evaluating a run after a shorter training. After a longer training,
the evaluation takes at most as long as the training."""
PREVIEW_SIDE = 1280  # Maximum length in pixels of the longer side of the rendering in the preview.


class Outputs:
    """Writer of the output files of a training. For a run in memory, no files are written."""

    def __init__(
        self,
        training: Training,
        start: float,
        on_report: Callable[[Report], None] | None = None,
        *,
        all_views: bool = False,
        on_end: Callable[[], None] | None = None,
        progress: bool = True,
    ) -> None:
        """Create the writer.

        Args:
            training: Training whose reports are passed to `add`.
            start: `time.perf_counter()` at the start of the command.
            on_report: Callback for each report.
            all_views: Whether to evaluate all test views, instead of those that `measured_views`
                selects.
            on_end: Callback that `finish` calls before the evaluation.
            progress: Whether to show progress bars, on the first rank.
        """
        self._training, self._run, self._folder = training, training.run, training.folder
        self._start, self._on_report, self._on_end = start, on_report, on_end
        self._all_views = all_views
        self.progress = progress and current_ranks().is_first
        self._scalars: Scalars | None = None

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Context manager during which `scalars.jsonl` is open. The folder must be locked."""
        if self._folder is None:
            yield
            return
        self._scalars = Scalars(self._folder, step=self._run.state.step)
        try:
            yield
        finally:
            self._scalars.close()

    @property
    def are_complete(self) -> bool:
        """Whether the run folder contains the requested metrics of the current step."""
        return self._known.values.get("steps") == self._run.state.step and not self._all_views

    def add(self, report: Report) -> None:
        """Append a report to `scalars.jsonl`, and then call `on_report`."""
        if self._scalars is not None:
            self._scalars.add(report)
        if self._on_report:
            self._on_report(report)

    def finish(self) -> None:
        """Call `on_end`, evaluate test views, and write `preview.png` and `metrics.json`. At least
        as many views are evaluated as in an existing `metrics.json`."""
        log_memory("after training")
        run, folder = self._run, self._folder
        if folder is None or self._scalars is None:
            return
        error: Exception | None = None
        if self._on_end:  # Called first, because its output is most important to users.
            try:
                self._on_end()
            except Exception as raised:
                error = raised
        of = len(run.images().splits.get("test", ()))
        views = self._evaluated(of) if of else Evaluation([], split="test", of=0)
        if refinements := refinement_summary(run.refined):
            log.info("%s", refinements)
        preview = folder / "preview.png"
        try:
            save_preview(preview, run, has_test=bool(of))
        except InputError as problem:  # The metrics are written in any case.
            log.warning("%s", problem)
        wall_seconds = time.perf_counter() - self._start
        figures = metrics(self._training, views, wall_seconds=wall_seconds)
        confirm()
        write_json(folder / "metrics.json", figures)
        if error is not None:
            raise error

    def _evaluated(self, of: int) -> Evaluation:
        """Evaluate test views, and log their number and the estimated time. The split has `of`
        views."""
        run, known = self._run, int(self._known.number("test_views", 0))
        limit = of if self._all_views else measured_views(run, known)
        seconds, allowed = seconds_to_measure(run, limit), max(run.state.train_seconds, EVALUATION)
        if seconds > allowed and not self._all_views:
            limit = max(int(limit * allowed / seconds), known, 1)
            seconds = allowed
        part = f"{limit} of {of}" if limit < of else str(of)
        hint = "; --all-views evaluates all" if limit < of else ""
        what = f"{part} test view{'s' * (of > 1)}"
        log.info("evaluating %s, which takes about %s%s", what, duration(seconds), hint)
        return run.evaluate("test", limit=limit, progress=self.progress)

    @property
    def _known(self) -> Fields:
        """Values in `metrics.json`, or an empty object without the file."""
        path = self._folder and self._folder / "metrics.json"
        return read_fields(path) if path and path.is_file() else Fields({}, "metrics.json")


def save_preview(path: Path, run: Run, *, has_test: bool) -> None:
    """Write a rendering of the first test view next to its photo, as a PNG file. If the scene has
    no test views, the preview is a rendering from a camera on an orbit. The longer side of the
    rendering has at most `PREVIEW_SIDE` pixels."""
    views = run.views("test") if has_test else None
    camera = views.cameras[0] if views else run.orbit(1)[0]
    lens = camera.lens
    scale = min(1.0, PREVIEW_SIDE / max(lens.width, lens.height))
    size = max(round(lens.width * scale), 2), max(round(lens.height * scale), 2)
    view = Camera(lens.scaled(*size), camera.pose)
    image = to_bytes(run.render(view, run.scene.backdrop).color)
    if views:
        truth = to_bytes(views.photo(0, blend=run.config.train.blend))
        resized = Image.fromarray(truth).resize(size, Image.Resampling.BOX)
        image = np.concatenate([image, np.asarray(resized)], axis=1)
    with appearing(path) as partial:
        Image.fromarray(image).save(partial)


def mean_quality(views: Evaluation) -> ViewQuality:
    """Return the means over the evaluated views. A mean is None if the metric was not measured."""
    means = map(views.mean, ViewQuality._fields[1:])
    known: Any = (None if math.isnan(mean) else mean for mean in means)
    return ViewQuality(f"mean of {len(views)}", *known)


def quality(views: Evaluation, *, background: str) -> dict[str, Any]:
    """Return the mean quality of the evaluated views as JSON values. For the split `test`, the
    values include `psnr_test` in dB and `test_views` (number of evaluated views). If no views were
    evaluated, the means are None."""
    split, mean = views.split, mean_quality(views)._asdict()
    return {
        **{f"{name}_{split}": mean[name] for name in mean if name != "name"},
        f"{split}_views": len(views),
        f"{split}_views_in_scene": views.of,
        f"{split}_measured": measured(views, views.of, split),
        "background": background,
    }


def metrics(training: Training, views: Evaluation, *, wall_seconds: float) -> dict[str, Any]:
    """Collect the values of `metrics.json`. Times are in seconds, and PSNR is in dB."""
    run, traces = training.run, training.trainer.traces if training.trainer else Traces()
    return {
        **machine(),
        "preset": run.config.preset,
        "seed": run.config.seed,
        "ranks": current_ranks().size,
        "steps": run.state.step,
        "skipped_steps": run.skipped_steps,
        "train_seconds": run.state.train_seconds,
        "kernel_build_seconds": run.build_seconds,
        "variants": variants_here(),
        "wall_seconds": wall_seconds,
        "train_views": len(run.scene.cameras("train")),
        "split": run.scene.options.split,
        "held_out": described(run.scene.options.split),
        "extent": run.scene.extent,
        **quality(views, background="white"),
        **surface_quality(run, *(("test", "train") if views.of else ("train",))),
        "refined": run.refined,
        "psnr_curve": [list(point) for point in run.curve],
        "rays_per_second": run.rates[0],
        "samples_per_second": run.rates[1],
        "traces": traces.counts.total(),
        "needless_traces": traces.needless,
        "peak_memory_bytes": peak_memory_bytes(),
        "active_memory_bytes": active_memory_bytes(),
    }


def protocol(run: Run, split: str, background: str) -> dict[str, Any]:
    """Describe an evaluation: the views, the background, and the definition of each metric. Metrics
    can be compared only if their evaluation protocols are equal. The image `size` is the size of
    the first view in pixels."""
    lens = run.images().views(split).cameras[0].lens
    return {
        "scene": as_json(run.scene.path),
        "split": split,
        "held_out": described(run.scene.options.split),
        "train_views": len(run.scene.cameras("train")),
        "size": [lens.width, lens.height],
        "background": background,
        "blend": run.config.train.blend,
        "psnr": "mean of the PSNR of all views, from all pixels as sRGB values in [0, 1]",
        "psnr_corrected": "PSNR after fitting a gain and an offset per channel to the photo of "
        "each view by least squares, for images with different exposures",
        "depth": "relative errors at observations of every fifth sparse point, which training did "
        "not use; plane: fractions of pixels on the ground plane of the sparse points",
        "ssim": "mean of the SSIM of all views, Gaussian window 11x11, sigma 1.5, per sRGB channel",
        "steps": run.state.step,
        "train_seconds": run.state.train_seconds,
    }


MAX_RAYS = 2**13  # Maximum number of rays for each metric.


def surface_quality(run: Run, *splits: str, progress: bool = True) -> dict[str, float]:
    """Compare rendered depth with sparse points that were excluded from training.

    For the split "test" of a scene with tracks, the names of the values are
    `depth_error_median_test`, `depth_error_p90_test`, `depth_within_3_percent_test`, and
    `depth_points_test`, the number of observations. With a ground plane,
    `plane_within_3_percent_test` and `plane_within_5_percent_test` are fractions of the pixels on
    the plane. Errors are relative to the true distance.
    """
    scene = run.images()
    if scene.points is None:
        return {}
    renderer, eyes = run.renderer(), np.stack([camera.pose[:, 3] for camera in run.cameras])
    plane = scene_ground_plane(scene.points, scene.bounds, eyes, run.scene.up)
    values: dict[str, float] = {}
    for split in splits:
        cameras = _cameras(run, split, progress=progress)
        if split in scene.held_out:
            values |= _at_points(run, renderer, cameras, split)
        if plane is not None:
            values |= _on_plane(renderer, cameras, plane, split, run.config.seed)
    return values


def _cameras(run: Run, split: str, *, progress: bool) -> Cameras:
    if split == "train":
        return Cameras.stack(run.cameras)
    return run.views(split, progress=progress).cameras


def _at_points(run: Run, renderer: Renderer, cameras: Cameras, split: str) -> dict[str, float]:
    """Compute depth errors at the observations of points that were excluded from training."""
    tracks = run.images().held_out[split]
    distance = distances_of(tracks, np.array(cameras.poses[:, :, 3]))
    is_inside = np.asarray(run.scene.bounds.holds(tracks.points))[tracks.point]
    chosen = np.flatnonzero(is_inside & (distance > 0))
    chosen = chosen[:: max(-(-len(chosen) // MAX_RAYS), 1)]
    pixel = mx.array(tracks.pixel[chosen], mx.float32)
    rays = rays_through(cameras, mx.array(tracks.view[chosen], mx.int32), pixel)
    errors = depth_errors(np.abs(depth_along(renderer, rays) / distance[chosen] - 1.0))
    if errors is None:
        return {}
    return {
        f"depth_error_median_{split}": errors.median,
        f"depth_error_p90_{split}": errors.p90,
        f"depth_within_3_percent_{split}": errors.within_3_percent,
        f"depth_points_{split}": errors.number,
    }


def _on_plane(
    renderer: Renderer, cameras: Cameras, plane: GroundPlane, split: str, seed: int
) -> dict[str, float]:
    """Compute depth errors at random pixels with rays that intersect the plane inside its hull."""
    rays = random_rays(cameras, MAX_RAYS, np.random.default_rng(seed))
    distance = np.array(plane.distance(rays), np.float64)
    is_on = np.flatnonzero(distance < FAR_DISTANCE)
    if not len(is_on):
        return {}
    hitting = rays.at(mx.array(is_on))
    error = np.abs(depth_along(renderer, hitting) / distance[is_on] - 1.0)
    return {
        f"plane_within_{percent}_percent_{split}": float((error <= percent / 100).mean())
        for percent in (3, 5)
    }


def random_rays(cameras: Cameras, count: int, random: np.random.Generator) -> Rays:
    """Return rays in scene coordinates through random pixel positions of random cameras."""
    view = random.integers(0, len(cameras), count, np.int32)
    pixel = random.random((count, 2)) * np.array(cameras.sizes)[view]
    return rays_through(cameras, mx.array(view), mx.array(pixel, mx.float32))


def depth_along(renderer: Renderer, rays: Rays) -> Float64Array:
    """Return the distances (rays,) to surfaces in scene units, or 0 for rays that hit none."""
    seen = renderer.see(rays)
    opacity, depth = (
        to_numpy(values).astype(np.float64) for values in (seen.opacity, seen.weighted_depth)
    )
    return np.asarray(depth / np.maximum(opacity, 1e-6))


def surface_summary(values: Mapping[str, float], split: str) -> list[str]:
    """Return a line for each kind of metric of a split in the result of `surface_quality`."""
    lines = []
    if f"depth_points_{split}" in values:
        median, p90, within = (
            100.0 * values[f"depth_{name}_{split}"]
            for name in ("error_median", "error_p90", "within_3_percent")
        )
        lines.append(
            f"depth error at {values[f'depth_points_{split}']} observations of sparse points that "
            f"were excluded from training, {split} views: median {median:.2f} %, 90th percentile "
            f"{p90:.1f} %; {within:.0f} % of the observations have an error of at most 3 %"
        )
    if f"plane_within_5_percent_{split}" in values:
        near, far = (
            100.0 * values[f"plane_within_{percent}_percent_{split}"] for percent in (3, 5)
        )
        lines.append(
            f"ground plane of the sparse points, {split} views: {near:.0f} % of the pixels have a "
            f"depth error of at most 3 %, {far:.0f} % of at most 5 %"
        )
    return lines
