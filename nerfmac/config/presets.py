"""Presets: configurations by device and memory."""

from __future__ import annotations

from dataclasses import replace

from nerfmac.common import checks
from nerfmac.config.fields import HashGridConfig, NetworkConfig, VanillaConfig
from nerfmac.config.optimizer import OptimizerConfig
from nerfmac.config.record import BY_MODEL, Config, override
from nerfmac.config.refine import RefineConfig
from nerfmac.config.sampling import MarchConfig, OccupancyConfig
from nerfmac.config.training import TrainConfig

# Few steps along a ray: the shortest step and its growth with distance are four times base's.
_CPU_MARCH = MarchConfig(steps=256, cone=1 / 64, march_factor=4)
_CPU_OPTIMIZER = OptimizerConfig(networks=0.5)
_CPU_REFINE = RefineConfig(coarse_steps=500)  # a CPU trains for fewer steps

PRESETS: dict[str, Config] = {
    "base": Config(),
    "big": override(
        Config(),
        preset="big",
        grid=HashGridConfig(log2_entries=21),
        march=MarchConfig(max_samples=2**18),
        train=TrainConfig(steps=30_000),
    ),
    # For a CPU, where the time per sample decides: narrow networks with one hidden layer each, few
    # steps along a ray, small tables, and so few rays a step. With an initial density of 1, one or
    # two of the built-in scene's flowers vanished for good with each of three seeds; with exp(-2),
    # none. march_factor is 1: the samples that thinning leaves out save more time than finding
    # them takes, and a larger factor finds too few more.
    "small": override(
        Config(),
        preset="small",
        grid=HashGridConfig(levels=8, features=4, log2_entries=16),
        networks=NetworkConfig(width=32, color_layers=1, density_bias=2),
        march=replace(_CPU_MARCH, max_samples=2**15, march_factor=1),
        occupancy=OccupancyConfig(
            resolution=64,
            warmup_fraction=0.25,
            fraction=0.125,
            visibility_rays=2**10,
            visibility_patience=512,
        ),
        optimizer=_CPU_OPTIMIZER,
        refine=_CPU_REFINE,
        train=TrainConfig(steps=5_000, rays=1024, most_rays=2**14),
    ),
    "tiny": override(
        Config(),
        preset="tiny",
        grid=HashGridConfig(levels=8, features=2, log2_entries=14),
        networks=NetworkConfig(width=32, color_layers=1, density_bias=2),
        march=replace(_CPU_MARCH, max_samples=2**13),
        occupancy=OccupancyConfig(
            resolution=32,
            warmup_fraction=0.5,
            fraction=0.25,
            visibility_rays=2**9,
            visibility_patience=512,
        ),
        optimizer=_CPU_OPTIMIZER,
        refine=_CPU_REFINE,
        train=TrainConfig(steps=1_000, rays=256, most_rays=2**12),
    ),
}


# Vanilla model: network, rays per step, and the sample budget. The paper's sizes are for a GPU; a
# CPU would need a minute a step.
_VANILLA = {
    "big": (VanillaConfig(), 4096, 2**20),
    "base": (VanillaConfig(), 4096, 2**20),
    "small": (VanillaConfig(width=64, layers=4, skip=1, coarse=32, fine=32), 512, 2**16),
    "tiny": (VanillaConfig(width=32, layers=3, skip=0, coarse=16, fine=16), 128, 2**13),
}


def vanilla(config: Config) -> Config:
    """The preset `config` for the vanilla model, trained as in Mildenhall et al. 2020.

    Adam with a learning rate from 5e-4 to 5e-5, squared error, no regularization. Smaller networks
    take four times the rate.
    """
    sizes, rays, max_samples = _VANILLA[config.preset]
    is_full = sizes == VanillaConfig()
    return replace(
        config,
        model="vanilla",
        vanilla=sizes,
        march=replace(config.march, max_samples=max_samples),
        optimizer=OptimizerConfig(
            rate=5e-4 if is_full else 2e-3,
            beta2=0.999,
            epsilon=1e-7,
            l2=0.0,
            warmup_steps=0,
            hold=0.0,
            final_rate=0.1,
            average=0.0,
            networks=1.0,
        ),
        train=TrainConfig(
            steps=200_000 if is_full else config.train.steps,
            rays=rays,
            most_rays=rays,
            huber=1.0,  # half the squared error, as colors lie in [0, 1]
            gradient_scaling=0.0,
            loss_scale=1.0,
        ),
    )


BY_MODEL["hash"] |= PRESETS
BY_MODEL["vanilla"] |= {name: vanilla(config) for name, config in PRESETS.items()}


def preset(name: str, device: str, memory_bytes: int, model: str = "hash") -> Config:
    """The preset `name` of a model; `auto` chooses by device (metal, cuda, cpu) and its memory.

    Raises `InputError` for an unknown name or model.
    """
    checks.choice("preset", name, ("auto", *PRESETS))
    checks.choice("model", model, ("hash", "vanilla"))
    return BY_MODEL[model][_automatic(device, memory_bytes) if name == "auto" else name]


AUTOMATIC = {"base": 1.2e9, "small": 0.0}
"""Bytes that training takes on a GPU with the presets that `auto` chooses from, largest first.

Base: parameters, average and Adam's packed moments 140 MB, activations about 1 GB."""
MARGIN = 2.0
"""Memory that `auto` asks for over `AUTOMATIC`: room for the scene's images, MLX's free buffers
and the viewer. A Mac with 8 GB offers its GPU two thirds of it, more than twice what base takes."""


def _automatic(device: str, memory_bytes: int) -> str:
    if device == "cpu":
        return "small"
    return next(name for name, needed in AUTOMATIC.items() if MARGIN * needed <= memory_bytes)
