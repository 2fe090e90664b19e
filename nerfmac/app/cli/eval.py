"""`nerfmac eval`: evaluate a saved run on a split of its scene."""

from __future__ import annotations

from typing import Any

import numpy as np

from nerfmac.app.cli.options import Eval
from nerfmac.app.export import evaluate_to_page, worst
from nerfmac.app.run import (
    CONFIGURED,
    Run,
    protocol,
    quality,
    read_record,
    surface_quality,
    surface_summary,
)
from nerfmac.app.scenes import load_scene
from nerfmac.app.snapshots import is_snapshot, load_snapshot
from nerfmac.backend import choose_device
from nerfmac.backend.machine import machine
from nerfmac.common.checks import InputError
from nerfmac.common.files import appearing_if, write_json
from nerfmac.rendering.perceptual import Lpips
from nerfmac.training.method import Method


def main(arguments: Eval, method: Method = CONFIGURED) -> int:
    """Run `nerfmac eval` and return the exit code."""
    choose_device(arguments.device)
    run = _run(arguments, method)
    with appearing_if(arguments.json) as json:  # Reports an unwritable file before rendering.
        figures = _evaluated(run, arguments)
        if json:
            write_json(json, figures)
    return 0


def _run(arguments: Eval, method: Method) -> Run:
    if is_snapshot(arguments.run):
        if arguments.scene is None:
            raise InputError(
                "a snapshot does not contain images; pass the scene folder with --scene"
            )
        return load_snapshot(arguments.run, arguments.scene)
    if arguments.scene is None:
        return Run.load(arguments.run, method=method)
    options = read_record(arguments.run).options
    scene = load_scene(arguments.scene, **vars(options))
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
        print(_line(view.name, view.psnr, view.ssim, view.lpips))
    worst_views = worst(views)
    if worst_views:
        print("worst: " + ", ".join(f"{view.name} ({view.psnr:.2f} dB)" for view in worst_views))
    figures = quality(views, len(views), background=background, split=split)
    psnr, ssim = figures[f"psnr_{split}"], figures[f"ssim_{split}"]
    distances = [view.lpips for view in views if view.lpips is not None]
    mean = float(np.mean(distances)) if distances else None
    print(_line(f"mean of {len(views)}", psnr, ssim, mean))
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
            }
            for view in views
        },
    }


def _line(name: str, psnr: float, ssim: float, lpips: float | None) -> str:
    end = "" if lpips is None else f"  LPIPS {lpips:.4f}"
    return f"{name:30} {psnr:6.2f} dB  SSIM {ssim:.4f}{end}"
