"""Train as a slower GPU would: each step is charged by a model of that GPU instead of by the clock.

    python scripts/slow_gpu.py SCENE --gpu M1 --seconds 15 60

For each time, the script trains with the preset base and with the settings that the preset `auto`
chooses for the speed of this GPU, and prints the PSNR of held-out views. `slow_gpu` is a context
manager for other scripts and for tests.

The model was estimated from the bytes, operations, and launches of a step on an M1: a time per
sample, and a time per step that depends on the size of the table (Adam, half-precision copy). No
time was measured on a Mac. The other GPUs compute a step of the preset base in 20 and 6.5 ms.
"""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import nerfmac
from nerfmac import Config, Goal, Trainer
from nerfmac.config import AUTO, PRESETS, override
from nerfmac.training import clock

SAMPLES_MS = 46.0 / 2**17  # Time per sample of an M1 in milliseconds.
TABLE_MS = {19: 9.0, 18: 5.0, 17: 3.0, 16: 2.0}  # Time per step by `grid.log2_entries`.
GPUS = {"M1": 1.0, "M2 Pro": 20 / 55, "M4 Max": 6.5 / 55}  # Step time relative to an M1.


def step_seconds(config: Config, gpu: str) -> float:
    """Return the modelled time of a training step in seconds."""
    samples, table = SAMPLES_MS * config.march.max_samples, TABLE_MS[config.grid.log2_entries]
    return 1e-3 * GPUS[gpu] * (samples + table)


@contextmanager
def slow_gpu(gpu: str) -> Iterator[None]:
    """Return a context manager in which training time passes only by steps of `gpu`."""
    now, advance = 0.0, Trainer.advance

    def charged(trainer: Trainer, *arguments: Any, **options: Any) -> Any:
        nonlocal now
        now += step_seconds(trainer.config, gpu)
        return advance(trainer, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "advance", charged)
        patch.setattr(clock, "time", SimpleNamespace(perf_counter=lambda: now))
        yield


def main() -> None:
    """Print a table of the times and the PSNR of both configurations."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("scene", type=Path)
    parser.add_argument("--gpu", choices=GPUS, default="M1")
    parser.add_argument("--seconds", type=float, nargs="+", default=[15.0, 60.0])
    parser.add_argument("--split", default=None)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    scene = nerfmac.load_scene(arguments.scene, split=arguments.split)
    print(f"{'seconds':>8} {'preset':>6} {'samples':>8} {'entries':>8} {'steps':>6} {'PSNR':>6}")
    for seconds in arguments.seconds:
        for name in ("base", AUTO):
            config = override(PRESETS["base"], preset=name, seed=arguments.seed)
            with slow_gpu(arguments.gpu):
                run = nerfmac.train(scene, config, Goal(seconds=seconds))
            sizes = run.config.march.max_samples, 2**run.config.grid.log2_entries
            psnr = run.evaluate().psnr
            shown = f"{seconds:8g} {name:>6} {sizes[0]:8} {sizes[1]:8}"
            print(f"{shown} {run.state.step:6} {psnr:6.2f}", flush=True)


if __name__ == "__main__":
    main()
