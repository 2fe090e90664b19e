"""How this machine trains: quality after some seconds, launches' times, and what was predicted."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from math import prod
from typing import Any

from nerfmac.backend import current_device, device_name, memory_bytes
from nerfmac.backend.variants import variants_here
from nerfmac.measure.bench import (
    Ceilings,
    Chip,
    Launched,
    chip_named,
    counted_work,
    estimate,
    launches,
    measure,
)
from nerfmac.measure.profile import NEVER_EVALUATED, recorded_launches, sizes_of
from nerfmac.presets import preset
from nerfmac.run import Run
from nerfmac.scenes import builtin_scene_path, load_scene

MEASURED = "measured"
"""The name of a chip whose rates are those that were measured."""
BOUND = 100.0
"""Milliseconds: launches are to be shorter, so that none holds up a GPU's display for long."""
_UPDATES = slice(0, 2)  # of what `recorded_launches` gives; the step follows
_STEP = 2


def trained(seconds: float) -> Run:
    """A run on the built-in scene, of the device's own preset, trained for so many seconds."""
    config = preset("auto", current_device(), memory_bytes())
    run = Run.begin(load_scene(builtin_scene_path()), config)
    run.train(seconds=seconds)
    return run


def quality(run: Run) -> dict[str, Any]:
    """What came of the run's training, as JSON values."""
    views = run.evaluate("test")
    state = run.state
    return {
        "scene": "still_life",
        "preset": run.config.preset,
        "variants": variants_here(),
        "seconds": state.train_seconds,
        "steps": state.step,
        "step_ms": 1e3 * state.train_seconds / state.step,
        "rays": state.rays,
        "build_seconds": run.build_seconds,
        "psnr": sum(view.psnr for view in views) / len(views),
        "ssim": sum(view.ssim for view in views) / len(views),
        "test_views": len(views),
    }


def watchdog(run: Run, seconds: float = 0.05) -> dict[str, Any]:
    """The longest launch of a step, of an update and of a picture, each timed about `seconds` long.

    As JSON values. For a GPU: a CPU has no display to hold up, and takes a picture as one launch.
    """
    times = {
        what: max((measure(each.again, seconds=seconds).median, each.name) for each in launched)
        for what, launched in _largest(run)
    }
    longest, name = max(times.values())
    return {
        "bound_ms": BOUND,
        "longest_ms": longest,
        "launch": name,
        "margin": BOUND / longest,
        "longest_of": {what: {"ms": ms, "launch": name} for what, (ms, name) in times.items()},
    }


def _largest(run: Run) -> Iterator[tuple[str, list[Launched]]]:
    """Of each kernel the launch over the largest grid."""
    recorded = recorded_launches(run.trainer, run.state)
    launched = {
        "update": list(itertools.chain(*recorded[_UPDATES])),
        "step": recorded[_STEP],
        "picture": launches(partial(run.render, run.orbit(frames=1)[0])),
    }
    for what, found in launched.items():
        by_size = sorted(found, key=lambda each: prod(each.call["grid"]))
        of_name = {each.name: each for each in by_size if each.name not in NEVER_EVALUATED}
        yield what, list(of_name.values())


def prediction(run: Run, ceilings: Ceilings) -> dict[str, Any]:
    """A step's estimate by its bytes and operations beside the time that it took, as JSON values.

    By the published figures of an Apple GPU, as in `nerfmac bench --roofline`; on another device by
    its measured `ceilings`.
    """
    measured = Chip(MEASURED, ceilings.bandwidth / 1e9, ceilings.rate / 1e12)
    published = chip_named(device_name()) if current_device() == "metal" else None
    chip = published or measured
    _, cached, uncached = estimate(counted_work(sizes_of(run.trainer, run.state)), chip)
    step = 1e3 * run.state.train_seconds / run.state.step
    return {
        "chip": chip._asdict(),
        "cached_ms": cached,
        "uncached_ms": uncached,
        "measured_ms": step,
        "measured_over_cached": step / cached,
    }
