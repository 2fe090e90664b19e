"""Configurations for a device's size, and which of them a device gets."""

from __future__ import annotations

from nerfmac import checks
from nerfmac.config import (
    Config,
    HashGridConfig,
    MarchConfig,
    NetworkConfig,
    OccupancyConfig,
    OptimiserConfig,
    TrainConfig,
)

PRESETS: dict[str, Config] = {
    "base": Config(),
    "big": Config(
        preset="big",
        grid=HashGridConfig(log2_entries=21),
        train=TrainConfig(steps=30_000, slots=2**19),
    ),
    # For a CPU, where the time a sample takes decides. On Lego at 400x400, after 40 s on two cores,
    # against 22.6 dB with 2^16 entries, 512 steps, 2^15 slots and the rate 0.01: 256 steps +1.8 dB
    # (128: less), 2^15 entries +0.3, and 2^14 slots with twice the rate +0.3 more. Now that kernels
    # do the rest of a step, narrower networks with one hidden layer each give +0.7 after 30 s, and
    # 2^15 slots +0.2.
    "small": Config(
        preset="small",
        grid=HashGridConfig(log2_entries=15, finest=1024),
        networks=NetworkConfig(width=32, colour_layers=1),
        march=MarchConfig(steps=256),
        occupancy=OccupancyConfig(resolution=64, warmup_fraction=0.25, fraction=0.125),
        optimiser=OptimiserConfig(rate=2e-2),
        train=TrainConfig(steps=5_000, slots=2**15, rays=1024, most_rays=2**14),
    ),
    "tiny": Config(
        preset="tiny",
        grid=HashGridConfig(levels=8, features=2, log2_entries=14, finest=512),
        networks=NetworkConfig(width=32, colour_layers=1),
        march=MarchConfig(steps=256),
        occupancy=OccupancyConfig(resolution=32, warmup_fraction=0.5, fraction=0.25),
        optimiser=OptimiserConfig(rate=2e-2),
        train=TrainConfig(steps=1_000, slots=2**13, rays=256, most_rays=2**12),
    ),
}


def preset(name: str, device: str, memory_bytes: int) -> Config:
    """The preset `name`; `auto` chooses by device (metal, cuda, cpu) and its memory in bytes."""
    checks.choice("preset", name, ("auto", *PRESETS))
    if name != "auto":
        return PRESETS[name]
    if device == "cpu":
        return PRESETS["small"]
    # Parameters, their average and Adam's two moments take 190 MB, a step's activations about 1 GB.
    return PRESETS["base"] if memory_bytes >= 6 * 2**30 else PRESETS["small"]
