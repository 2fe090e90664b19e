"""Settings of a training step: samples, rays, loss, and the exchange between ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from nerfmac.common import checks


@dataclass(frozen=True)
class TrainConfig:
    """A training step, and the number of steps."""

    steps: int = 20_000  # Training steps of a run, unless --steps or --seconds says otherwise.
    rays: int = 4096  # Rays of the first step; later steps take as many as fit max-samples.
    most_rays: int = 2**16  # Largest number of rays in a step, however few samples they need.
    huber: float = 0.1  # Color error, in [0, 1], above which the loss grows linearly.
    disparity: float = 0.01
    """Weight of the disparity loss, in scenes larger than the unit cube; falls to 0 at half of the
    run. Larger: matter farther from the cameras, where images leave its depth open."""
    distortion: float = 0.0  # Weight of the distortion loss; larger: less spread-out density.
    entropy: float = 0.0
    """Weight of the entropy loss on opacities; larger values push rays to be opaque or empty."""
    depth: float = 0.0  # Weight of the depth loss, at first; more pulls matter to sparse points.
    depth_rays: float = 1 / 16  # With depth: fraction of a step's rays on sparse points.
    depth_until: float = 1.0  # Fraction of the run after which the weight of depth has fallen to 0.
    smoothness: float = 0.0
    """Weight of the smoothness loss, which makes depth alike at neighboring pixels of one color, as
    on plain surfaces. Half of the rays of a step are then next to the other half. 0: off."""
    ground: float = 0.0
    """Weight of the ground loss, which pulls density to the ground plane of the sparse points, such
    as a floor or a table; for scenes whose floor is plain. 0: off."""
    gradient_scaling: float = 1.0
    """In scenes larger than the unit cube: scale down the gradients of samples nearer to the camera
    than this, in scene units, against fog there. 0: off."""
    loss_scale: float = 1024.0
    """Loss scale of the first step: overflow halves it, 2,000 good steps double it."""
    blend: Literal["srgb", "linear"] = "srgb"
    """Color space in which images with alpha are blended over a background."""

    def __post_init__(self) -> None:
        checks.number("train.steps", self.steps, low=1, whole=True)
        checks.number("train.most_rays", self.most_rays, low=16, high=2**24, whole=True)
        checks.number("train.rays", self.rays, low=16, high=self.most_rays, whole=True)
        checks.number("train.huber", self.huber, low=1e-6)
        checks.number("train.disparity", self.disparity, low=0.0)
        checks.number("train.distortion", self.distortion, low=0.0)
        checks.number("train.entropy", self.entropy, low=0.0)
        checks.number("train.depth", self.depth, low=0.0)
        checks.number("train.smoothness", self.smoothness, low=0.0)
        checks.number("train.ground", self.ground, low=0.0)
        checks.number("train.depth_rays", self.depth_rays, low=1e-3, high=0.5)
        checks.number("train.depth_until", self.depth_until, low=1e-3, high=1.0)
        checks.number("train.gradient_scaling", self.gradient_scaling, low=0.0)
        checks.number("train.loss_scale", self.loss_scale, low=1.0, high=2.0**16)
        checks.choice("train.blend", self.blend, ("srgb", "linear"))


@dataclass(frozen=True)
class RanksConfig:
    """The exchange between ranks; a run on one device has none."""

    allreduce_dtype: Literal["bfloat16", "float32"] = "bfloat16"
    """Type in which large arrays are sent between ranks; float32 is exact but sends twice the
    bytes."""

    def __post_init__(self) -> None:
        checks.choice("ranks.allreduce_dtype", self.allreduce_dtype, ("bfloat16", "float32"))
