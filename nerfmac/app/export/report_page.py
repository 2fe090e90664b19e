"""`write_report` writes an HTML report about a run, for example for a paper or a bug report."""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from nerfmac.app.export.pages import check_page, figure, head, scene_name, table, view_section
from nerfmac.app.run import Run, read_scalars, scaled_size
from nerfmac.app.scenes.images import decode
from nerfmac.backend.machine import machine
from nerfmac.common.checks import InputError
from nerfmac.common.files import appearing, read_json
from nerfmac.config import Config
from nerfmac.config.presets import flattened
from nerfmac.rendering.evaluation import Compared, ViewQuality, evaluate, measured

WORST = 3  # Maximum number of test views, those with the lowest PSNR, that are shown with images.
AROUND, LONGEST = 4, 480
"""Number of images along an orbit around the scene, and maximum length of their longer side in
pixels."""
HALVES = "grid-template-columns: repeat(2, 1fr); max-width: 60em"
CURVES = (
    ("psnr", "PSNR of training pixels, dB", False),
    ("loss", "loss", True),
    ("rays_per_second", "rays per second", False),
)
"""Curves on the page: key of the scalars, title, and whether the axis is logarithmic."""
LABELS = {
    "psnr_test": "PSNR of test views, dB",
    "psnr_corrected_test": "PSNR with each view's colors fitted, dB",
    "ssim_test": "SSIM of test views",
    "test_views": "evaluated test views",
    "test_views_in_scene": "test views of the scene",
    "test_row_fraction": "fraction of rows evaluated",
    "test_measured": "evaluated",
    **{
        f"{key}_{split}": f"{label}, {split} views"
        for split in ("test", "train")
        for key, label in {
            "depth_error_median": "depth error at held-out points, median fraction",
            "depth_error_p90": "depth error at held-out points, 90th percentile",
            "depth_within_3_percent": "depth within 3 % at held-out points, fraction",
            "depth_points": "observations of held-out points",
            "plane_within_3_percent": "ground plane within 3 %, fraction of pixels",
            "plane_within_5_percent": "ground plane within 5 %, fraction of pixels",
        }.items()
    },
    "train_seconds": "training, seconds",
    "wall_seconds": "training with loading and evaluation, seconds",
    "kernel_build_seconds": "compiling kernels, seconds",
    "peak_memory_bytes": "peak memory, bytes",
    "active_memory_bytes": "memory at the end, bytes",
    "needless_traces": "unnecessary traces",
    "held_out": "held-out views",
    "device_name": "device",
    "mlx_version": "MLX",
    "nerfmac_version": "nerfmac",
    "python_version": "Python",
}
"""Labels of measurements, keyed by the name in `metrics.json`. The default is the name with
spaces."""


def write_report(
    run: Run, folder: Path, path: Path, *, seconds: float = 20.0, progress: bool = True
) -> None:
    """Write an HTML report about a run.

    The report contains curves, images, the worst test views, metrics, versions, the configuration,
    and a profile if the folder contains one. If the images of the scene are missing, test views are
    not evaluated, and the report states the reason.

    Args:
        run: Run to describe.
        folder: Run folder.
        path: HTML file to write.
        seconds: Time in seconds for evaluating test views.
        progress: Whether to show a progress bar.

    Raises:
        InputError: If the file extension is unsupported, a file in `folder` is invalid, or the page
            cannot be written.
    """
    check_page(path)
    with appearing(path) as partial:
        metrics, profile = (_read(folder / f"{name}.json") for name in ("metrics", "profile"))
        profile_part = _profile(profile)  # Reports an invalid file before minutes of rendering.
        parts = [
            head(f"{folder.resolve().name}: {scene_name(run)}"),
            _headline(metrics),
            f"<p>{run.state.step} steps, {run.state.train_seconds:.1f} s of training, preset "
            f"{run.config.preset}.</p>\n",
            "<h2>Curves</h2>\n" + _curves(run, folder),
            "<h2>Images</h2>\n" + _images(run, folder, has_test=bool(metrics.get("test_views"))),
            "<h2>Worst test views</h2>\n" + _worst(run, seconds, progress),
            "<h2>Measurements</h2>\n" + _figures(metrics),
            profile_part,
            "<h2>Made by</h2>\n" + table(_named(machine())),
            "<h2>Configuration</h2>\n" + _configuration(run.config),
        ]
        partial.write_text("".join(parts), encoding="utf-8")


def _read(path: Path) -> dict[str, Any]:
    """Return the JSON object in `path`, or an empty object if the file does not exist."""
    values = read_json(path) if path.is_file() else {}
    if not isinstance(values, dict):
        raise InputError(f"{path} does not contain a JSON object; delete the file")
    return values


def _headline(metrics: Mapping[str, Any]) -> str:
    """Return the PSNR of the evaluation after training as an HTML headline."""
    psnr = metrics.get("psnr_test")
    if not isinstance(psnr, int | float):
        return "<p>Training evaluated no test views.</p>\n"
    on = metrics.get("test_measured") or "the test views"
    return (
        f"<p><strong>PSNR {psnr:.2f} dB</strong> on {escape(str(on))}, which training did not use."
        "</p>\n"
    )


def _curves(run: Run, folder: Path) -> str:
    """Return the HTML of the `CURVES` in `scalars.jsonl`, or else of the PSNR curve of the run."""
    lines = read_scalars(folder)
    drawn = []
    for key, title, is_log in CURVES:
        points = [(line["seconds"], line[key]) for line in lines if line.get(key) is not None]
        if is_log:
            points = [(seconds, value) for seconds, value in points if value > 0]
        if key == "psnr" and not points:
            points = [(seconds, psnr) for _, seconds, psnr in run.curve]
        if points:
            drawn.append(curve(title, points, is_log=is_log))
    return '<section class="curves">\n' + "".join(drawn) + "</section>\n"


def _images(run: Run, folder: Path, *, has_test: bool) -> str:
    """Return the HTML of the preview image, and of renderings from positions around the scene. If
    `has_test` is True, the preview is a rendering of a test view next to its photo."""
    lens = run.scene.cameras[0].lens
    size = scaled_size(lens, min(1.0, LONGEST / max(lens.width, lens.height)))
    around = "".join(
        figure(
            run.render(camera, run.scene.backdrop).color,
            f"position {number} of {AROUND} around the scene",
        )
        for number, camera in enumerate(run.orbit(AROUND, size), start=1)
    )
    preview = ""
    if (folder / "preview.png").is_file():
        pixels = decode(folder / "preview.png", 3, "preview.png").astype(np.float32) / 255.0
        halves = {"preview.png: a rendering": pixels}
        if has_test:
            rendering, photo = np.split(pixels[:, : pixels.shape[1] // 2 * 2], 2, axis=1)
            halves = {"rendering of a test view": rendering, "photo of the same view": photo}
        shown = "".join(figure(half, caption) for caption, half in halves.items())
        preview = f'<section style="{HALVES}">\n{shown}</section>\n'
    return f"{preview}<section>\n{around}</section>\n"


def _worst(run: Run, seconds: float, progress: bool) -> str:
    """Return the HTML of the test views with the lowest PSNR."""
    try:
        if not run.images().splits.get("test"):
            return "<p>The scene has no test views.</p>\n"
        views = run.views("test", progress=progress)
    except InputError as error:
        return f"<p>Not evaluated: {escape(str(error))}</p>\n"
    worst: list[tuple[float, int, ViewQuality, Compared]] = []

    def keep(view: ViewQuality, images: Compared) -> None:
        # A heap of the worst views, with the best of them first.
        item = (-view.psnr, -views.names.index(view.name), view, images)
        (heapq.heappush if len(worst) < WORST else heapq.heappushpop)(worst, item)

    blend = run.config.train.blend
    outcomes = evaluate(run.renderer, views, "white", blend, seconds=seconds, on_view=keep)
    bar = tqdm(outcomes, "test views", len(views.names), disable=not progress, unit="view")
    part = measured(list(bar), len(views.names), "test")
    summary = f"<p>The views with the lowest PSNR of {part}, over white.</p>\n"
    worst = sorted(worst, key=lambda item: item[2].psnr)
    return summary + "".join(view_section(item[2], item[3], -item[1]) for item in worst)


def _figures(metrics: Mapping[str, Any]) -> str:
    if not metrics:
        return "<p>The folder contains no metrics.json.</p>\n"
    measurements = {key: value for key, value in metrics.items() if key not in machine()}
    return table(_named(measurements))


def _named(values: Mapping[str, Any]) -> list[tuple[str, object]]:
    """Return table rows of labels and values, without lists, empty values, and nested values."""
    return [
        (LABELS.get(key, key.replace("_", " ")), "yes" if value is True else value)
        for key, value in values.items()
        if not isinstance(value, list | dict) and value is not None
    ]


def _profile(profile: Mapping[str, Any]) -> str:
    """Return the HTML of the profile that `nerfmac profile` wrote, or "" without a profile."""
    if not profile:
        return ""
    try:
        step = profile["step"]
        rows = [_part(part, step["ms"]["median"]) for part in step["parts"]]
        summary = (
            f"<p>A step of {step['rays']} rays takes {step['ms']['median']:.3f} ms on "
            f"{escape(str(profile['device_name']))}; its parts together {step['sum_ms']:.3f} ms."
            "</p>\n"
        )
        references = profile["references"].items()
    except (KeyError, TypeError) as error:
        raise InputError(
            f"profile.json was not written by nerfmac profile: {error}; delete the file"
        ) from error
    heading = ("stage", "part", "ms", "share", "GB/s", "GFLOP/s", "type", "runs as")
    reasons = [(f"{name} runs as reference", why) for name, why in references]
    return f"<h2>Profile</h2>\n{summary}{table(rows, heading)}{table(reasons) if reasons else ''}"


def _part(part: Mapping[str, Any], step: float) -> Sequence[object]:
    milliseconds = part["ms"]["median"]
    times = [f"{milliseconds:.3f}", f"{milliseconds / step:.1%}"]
    rates = part["bytes_per_second"], part["operations_per_second"]
    shown_rates = ["-" if rate is None else f"{rate / 1e9:.1f}" for rate in rates]
    dtypes = ", ".join(part["dtypes"])
    return [part["stage"], part["part"], *times, *shown_rates, dtypes, part["backend"]]


def _configuration(config: Config) -> str:
    """Return an HTML table of the run's settings. If a setting differs from the preset, the table
    also shows the value in the preset."""
    preset = dict(flattened(config.unchanged.to_json()))
    return table(
        (
            f"--{name.replace('_', '-')}",
            value,
            "" if preset[name] == value else f"preset: {preset[name]}",
        )
        for name, value in flattened(config.to_json())
    )


WIDTH, HEIGHT = 480, 280
LEFT, RIGHT, TOP, BOTTOM = 58, 14, 30, 44  # Margins of the plot in SVG units.
TICKS = 5  # Approximate number of ticks per axis.
COLOR = "#2f6fd0"


def curve(title: str, points: Sequence[tuple[float, float]], *, is_log: bool = False) -> str:
    """Return the SVG of a curve through points (seconds, value). With `is_log`, values exceed 0."""
    seconds, values = np.array(points, np.float64).T
    heights = np.log10(values) if is_log else values
    marks = (log_ticks if is_log else ticks)(float(heights.min()), float(heights.max()))
    low, high = marks[0], marks[-1]
    times = ticks(0.0, max(float(seconds.max()), 1e-9))

    def x(time: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * time / times[-1]

    def y(height: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (height - low) / (high - low)

    line = " ".join(f"{x(t):.1f},{y(h):.1f}" for t, h in zip(seconds, heights, strict=True))
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}" '
        'font-size="12" fill="currentColor">',
        f'<text x="{LEFT}" y="18" font-size="14">{escape(title)}</text>',
        *(_across(y(mark), _label(10.0**mark if is_log else mark)) for mark in marks),
        *(_along(x(time), _label(time)) for time in times),
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 6}" text-anchor="middle">'
        "seconds of training</text>",
        f'<polyline points="{line}" fill="none" stroke="{COLOR}" stroke-width="2"/>',
        f'<circle cx="{x(seconds[-1]):.1f}" cy="{y(heights[-1]):.1f}" r="3" fill="{COLOR}"/>',
        "</svg>\n",
    ]
    return "".join(parts)


def ticks(low: float, high: float) -> list[float]:
    """Return ticks around [`low`, `high`], at multiples of 1, 2, or 5 times a power of ten."""
    rough = max(high - low, 1e-9) / TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(each * power for each in (1, 2, 5, 10) if each * power >= rough * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [number * step for number in range(first, max(last, first + 1) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Return at least two consecutive integers around the base-10 exponents [`low`, `high`]."""
    first, last = math.floor(low), math.ceil(high)
    return [float(number) for number in range(first, max(last, first + 1) + 1)]


def _label(value: float) -> str:
    return f"{value:.4g}"


def _across(y: float, text: str) -> str:
    return (
        f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="currentColor" opacity=".2"/>'
        f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{text}</text>'
    )


def _along(x: float, text: str) -> str:
    return (
        f'<path d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="currentColor" opacity=".2"/>'
        f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{text}</text>'
    )
