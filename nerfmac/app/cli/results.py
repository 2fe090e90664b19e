"""`nerfmac eval` and `nerfmac export`: results of a saved run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nerfmac.app.cli.arguments import background, box
from nerfmac.app.cli.camera_paths import NamedPath
from nerfmac.app.cli.options import Eval, Export
from nerfmac.app.export.cameras import extract_cameras
from nerfmac.app.export.density import extract_density
from nerfmac.app.export.mesh import extract_mesh
from nerfmac.app.export.pages import evaluate_to_page, worst
from nerfmac.app.export.points import extract_points
from nerfmac.app.export.scene_page import PagePath, write_scene_page
from nerfmac.app.export.shape_files import need_libraries
from nerfmac.app.run import CONFIGURED, Run, surface_quality
from nerfmac.app.run.folder import read_record
from nerfmac.app.run.outputs import protocol, quality, surface_summary
from nerfmac.app.scenes import read_again
from nerfmac.app.snapshots import is_snapshot, load_snapshot
from nerfmac.app.snapshots.reading import open_run
from nerfmac.backend import choose_device
from nerfmac.backend.machine import machine
from nerfmac.common.checks import InputError
from nerfmac.common.files import appearing, appearing_if, check_replaceable, user_path, write_json
from nerfmac.rendering.perceptual import Lpips
from nerfmac.training.method import Method


def evaluate(arguments: Eval, method: Method = CONFIGURED) -> int:
    """Run `nerfmac eval` and return the exit code."""
    choose_device(arguments.device)
    run = _run_of(arguments, method)
    with appearing_if(arguments.json) as json:  # Reports an unwritable file before rendering.
        figures = _evaluated(run, arguments)
        if json:
            write_json(json, figures)
    return 0


def _run_of(arguments: Eval, method: Method) -> Run:
    if is_snapshot(arguments.run):
        if arguments.scene is None:
            raise InputError(
                "a snapshot does not contain images; pass the scene folder with --scene"
            )
        return load_snapshot(arguments.run, arguments.scene)
    if arguments.scene is None:
        return Run.load(arguments.run, method=method)
    scene = read_again(read_record(arguments.run), user_path(arguments.scene))
    return Run.load(arguments.run, method=method, source=scene)


def _evaluated(run: Run, arguments: Eval) -> dict[str, Any]:
    """Evaluate the run, print the metrics, and return them as JSON values."""
    split, background = arguments.split, arguments.background
    lpips = Lpips(arguments.lpips) if arguments.lpips else None
    if arguments.html:
        views = evaluate_to_page(run, arguments.html, split, background, lpips=lpips)
    else:
        views = run.evaluate(split, background, lpips=lpips)
    for view in views:
        depth = view.depth_median, view.depth_p90
        print(_line(view.name, view.psnr, view.ssim, view.lpips, *depth))
    worst_views = worst(views)
    if worst_views:
        print("worst: " + ", ".join(f"{view.name} ({view.psnr:.2f} dB)" for view in worst_views))
    figures = quality(views, len(views), background=background, split=split)
    psnr, ssim = figures[f"psnr_{split}"], figures[f"ssim_{split}"]
    distances = [view.lpips for view in views if view.lpips is not None]
    mean = float(np.mean(distances)) if distances else None
    depth = figures[f"depth_median_{split}"], figures[f"depth_p90_{split}"]
    print(_line(f"mean of {len(views)}", psnr, ssim, mean, *depth))
    if run.config.refine.changes_colors:
        corrected = figures[f"psnr_corrected_{split}"]
        print(f"PSNR {corrected:.2f} dB after fitting the colors of each rendering to its photo")
    names = dict.fromkeys((split, "train"))
    surfaces = surface_quality(run, *names)
    for name in names:
        for line in surface_summary(surfaces, name):
            print(line)
    return {
        **machine(),
        **figures,
        **surfaces,
        f"lpips_{split}": mean,
        "worst": [view.name for view in worst_views],
        "protocol": protocol(run, split, background, has_lpips=lpips is not None),
        "views": {
            view.name: {
                "psnr": view.psnr,
                "psnr_corrected": view.psnr_corrected,
                "ssim": view.ssim,
                "lpips": view.lpips,
                "depth_median": view.depth_median,
                "depth_p90": view.depth_p90,
            }
            for view in views
        },
    }


def _line(
    name: str,
    psnr: float,
    ssim: float,
    lpips: float | None,
    depth_median: float | None,
    depth_p90: float | None,
) -> str:
    end = "" if lpips is None else f"  LPIPS {lpips:.4f}"
    if depth_median is not None and depth_p90 is not None:
        end += f"  depth error {depth_median:.2%} (90th percentile {depth_p90:.2%})"
    return f"{name:30} {psnr:6.2f} dB  SSIM {ssim:.4f}{end}"


PATH_FPS = 12.0  # Camera poses per second. The page interpolates between them.


def export(arguments: Export, method: Method = CONFIGURED) -> int:
    """Run `nerfmac export` and return the exit code."""
    name = _kind_name(arguments.file, arguments.as_)
    options = _options(arguments, name)
    check_replaceable(arguments.file, overwrite=arguments.overwrite)
    if name == "mesh":
        need_libraries()
    choose_device(arguments.device)
    run = open_run(arguments.run, method=method)
    with appearing(arguments.file) as partial:
        summary = KINDS[name].write(run, partial, options)
    print(f"{arguments.file}: {summary}")
    return 0


def _kind_name(file: Path, requested: str | None) -> str:
    extension = file.suffix.lower()
    fitting = [name for name, kind in KINDS.items() if extension in kind.extensions]
    if requested is None and fitting:
        return fitting[0]
    if requested is None:
        known = "; ".join(f"{name}: {', '.join(kind.extensions)}" for name, kind in KINDS.items())
        raise InputError(f"cannot export to '{file}': the file extension must be one of {known}")
    if requested not in fitting:
        expected = " or ".join(KINDS[requested].extensions)
        raise InputError(
            f"cannot export {requested} to '{file}': the file extension must be {expected}"
        )
    return requested


def _options(arguments: Export, kind: str) -> dict[str, Any]:
    """Return the export options that are given on the command line. `kind` must support them."""
    names = sorted({name for kind in KINDS.values() for name in kind.options})
    values = {name: getattr(arguments, name) for name in names}
    options = {name: value for name, value in values.items() if value is not None}
    for name in options:
        if name not in KINDS[kind].options:
            known = ", ".join(f"--{option}" for option in KINDS[kind].options) or "none"
            raise InputError(f"--{name} cannot be used to export {kind}; options for it: {known}")
    if "crop" in options:
        options["crop"] = box("--crop", options["crop"])
    if "path" in options:
        options["path"] = NamedPath.read(options["path"])
    if "background" in options:
        options["background"] = background(options["background"])
    return options


def _mesh(run: Run, path: Path, options: dict[str, Any]) -> str:
    mesh = extract_mesh(run, **options)
    mesh.save(path)
    return f"{len(mesh.vertices)} vertices, {len(mesh.faces)} triangles"


def _points(run: Run, path: Path, options: dict[str, Any]) -> str:
    points = extract_points(run, **options)
    points.save(path)
    return f"{len(points.positions)} points"


def _cameras(run: Run, path: Path, _: dict[str, Any]) -> str:
    cameras = extract_cameras(run)
    write_json(path, cameras)
    splits = [f"{len(names)} {key[:-10]}" for key, names in cameras.items() if "_filenames" in key]
    listed = f" ({', '.join(splits)})" if splits else ""
    return f"{len(cameras['frames'])} cameras{listed}"


def _density(run: Run, path: Path, options: dict[str, Any]) -> str:
    grid = extract_density(run, **options)
    grid.save(path)
    return " x ".join(str(points) for points in grid.density.shape) + " points"


def _page(run: Run, path: Path, options: dict[str, Any]) -> str:
    named: NamedPath | None = options.pop("path", None)
    if named is not None:
        named = named.within(run)
        frames = max(round(named.seconds * PATH_FPS), 1)
        lens = named.lens(run)
        cameras = named.cameras(run, frames, (lens.width, lens.height))
        options["camera_path"] = PagePath(cameras, PATH_FPS, closed=named.is_closed)
    write_scene_page(run, path, **options)
    return f"{path.stat().st_size / 1e6:.1f} MB"


class Kind(NamedTuple):
    """Kind of export. The keys of `KINDS` are the names of the kinds."""

    write: Callable[[Run, Path, dict[str, Any]], str]
    """Function that exports a run to a file with options, and returns a one-line summary."""
    extensions: tuple[str, ...]
    options: tuple[str, ...] = ()


KINDS = {
    "mesh": Kind(_mesh, (".ply", ".obj", ".glb"), ("crop", "resolution", "smallest", "threshold")),
    "points": Kind(_points, (".ply",), ("count", "crop")),
    "cameras": Kind(_cameras, (".json",)),
    "density": Kind(_density, (".vdb",), ("crop", "resolution")),
    "page": Kind(_page, (".html", ".htm"), ("background", "path", "title")),
}
"""Kinds of export, keyed by name. If --as is not given, the first kind that supports the file
extension is used."""
