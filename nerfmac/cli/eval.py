"""`nerfmac eval`: quality of a saved run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from nerfmac.backend import choose_device
from nerfmac.backend.machine import machine
from nerfmac.cli.arguments import optional
from nerfmac.cli.choices import Device
from nerfmac.cli.outputs import quality
from nerfmac.files import write_json
from nerfmac.run import CONFIGURED, Run
from nerfmac.training.method import Method


@dataclass(frozen=True)
class Arguments:
    """Render every view of a split and compare it with its photograph."""

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folder of a run."""
    split: Literal["test", "val", "train"] = "test"
    """Which of the scene's views."""
    background: Literal["white", "black"] = "white"
    """What lies behind the scene, and behind pictures with alpha."""
    json: Annotated[Path | None, optional("FILE")] = None
    """Write the figures to this file too."""
    device: Device = "auto"
    """What computes."""


def main(argv: list[str], method: Method = CONFIGURED) -> int:
    """Evaluate as `argv` says; return the exit code."""
    arguments = tyro.cli(Arguments, prog="nerfmac eval", args=argv)
    choose_device(arguments.device)
    run = Run.load(arguments.run, method=method)
    views = run.evaluate(arguments.split, arguments.background)
    for view in views:
        print(f"{view.name:30} {view.psnr:6.2f} dB  SSIM {view.ssim:.4f}")
    figures = quality(views, len(views), arguments.background, arguments.split)
    psnr, ssim = figures[f"psnr_{arguments.split}"], figures[f"ssim_{arguments.split}"]
    print(f"{f'mean of {len(views)}':30} {psnr:6.2f} dB  SSIM {ssim:.4f}")
    if arguments.json:
        per_view = {view.name: {"psnr": view.psnr, "ssim": view.ssim} for view in views}
        write_json(arguments.json, {**machine(), **figures, "views": per_view})
    return 0
