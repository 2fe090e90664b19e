"""Settings of training: steps, rays, losses, the optimizer, and the refinement of views."""

from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

from nerfmac.common import checks
from nerfmac.config.settings import Range, Settings


@dataclass(frozen=True)
class TrainConfig(Settings):
    """Number of training steps, and settings of each step."""

    _prefix = "train."

    steps: Annotated[int, Range(1)] = 20_000
    """Number of training steps, unless steps or seconds are given."""
    grow_at: Annotated[int, Range(0)] = 0
    """Number of steps after which `march.max-samples`, `grid.log2-entries`, and `optimizer.average`
    change to the values of the preset, for runs that begin with smaller values. With 0, they do not
    change. The preset auto sets this number on a Mac if the run has no limit."""
    rays: int = 4096  # Number of rays in the first step. It later adapts to max-samples.
    max_rays: Annotated[int, Range(16, 2**24)] = 2**16  # Maximum number of rays in a step.
    huber: Annotated[float, Range(1e-6)] = 0.1
    """Color error, in [0, 1], above which the loss is linear."""
    occlusion: Annotated[float | None, Range(0.0)] = None
    """Initial weight of the occlusion loss in scenes larger than the unit cube. The weight decays
    to 0 during the first half of the run. Larger values move density away from the cameras where
    the images do not determine the depth. By default (auto), the weight is 0.01 (0.05 in the preset
    `small`), or 0 if the sparse points have a ground plane, because the loss would move a floor
    without texture."""
    depth: Annotated[float | None, Range(0.0)] = None
    """Initial weight of the depth loss. The depth loss moves surfaces to the sparse points and
    requires their tracks, which list the images that show each point. By default (auto), the weight
    is 0.05 if the sparse points have a ground plane, such as a floor or table, and 0 otherwise."""
    ground: Annotated[float | None, Range(0.0)] = None
    """Weight of the ground loss. The ground loss moves density to the ground plane of the sparse
    points. By default (auto), the weight is 0.05 if the depth loss is enabled and the sparse points
    have a ground plane. Otherwise, the weight is 0."""
    sensor: Annotated[float | None, Range(0.0)] = None
    """Weight of the sensor loss, which moves surfaces to the depth that a sensor has measured, such
    as the LiDAR of a phone. Requires a scene with depth images. By default (auto), the weight is
    0.03 for such scenes, and 0 otherwise."""
    gradient_scaling: Annotated[float, Range(0.0)] = 1.0
    """Distance from the camera, in scene units, below which the gradients of samples are reduced,
    to prevent haze in front of cameras. Gradient scaling applies only to scenes larger than the
    unit cube. With 0, gradient scaling is disabled."""
    loss_scale: Annotated[float, Range(1.0, 2.0**16)] = 1024.0
    """Initial loss scale. The loss scale is halved after an overflow and doubled after 2,000 steps
    without an overflow."""
    blend: Literal["srgb", "linear"] = "srgb"
    """Color space in which images with an alpha channel are blended over a background."""

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.number("train.rays", self.rays, low=16, high=self.max_rays)


class ParameterGroup(NamedTuple):
    """Adam settings for one parameter that override the settings in `OptimizerConfig`."""

    rate: float  # learning rate
    l2: float  # factor of the L2 penalty
    step: int | None = None  # number of updates, for bias correction; None if updated in every step


@dataclass(frozen=True)
class OptimizerConfig(Settings):
    """Settings of Adam, the learning rate schedule, and the moving average of the parameters.

    The learning rate rises over `warmup_steps`, as in nerfacc's training of Instant-NGP, because
    Adam's first steps have full length even for small gradients. Without a warm-up, colors in a
    dark scene became so dark that the gradient of the sigmoid vanished. If the length of the run is
    known, the rate is constant up to the fraction `hold` of the run and then decays exponentially.
    Instant-NGP uses the learning rate 0.01 for all parameters and multiplies it by 0.33 at fixed
    steps. Networks have a smaller rate than tables, because every sample contributes to their
    gradients. The L2 penalty would decay table entries that a step does not read, so it applies
    only to networks.
    """

    _prefix = "optimizer."

    rate: Annotated[float, Range(1e-30, checks.LARGEST)] = 3e-2
    """Learning rate after the warm-up. Reduce it if training diverges."""
    networks: Annotated[float, Range(1e-3, 1e3)] = 0.2
    """Factor of the learning rate for the weights of the networks."""
    beta1: Annotated[float, Range(0.0, 0.9999)] = 0.9
    """Decay per step of Adam's mean gradient."""
    beta2: float = 0.99  # Decay per step of Adam's mean squared gradient; above beta1^2.
    epsilon: Annotated[float, Range(1e-30, checks.LARGEST)] = 1e-15
    """Constant that Adam adds to the root of the mean squared gradient."""
    l2: Annotated[float, Range(0.0)] = 1e-7
    """Weight of the L2 penalty on the weights of the networks."""
    warmup_steps: Annotated[int, Range(0)] = 100
    """Number of steps over which the learning rate rises from 0."""
    hold: Annotated[float, Range(0.0, 0.9999)] = 0.7
    """Fraction of the run with a constant rate, before it decays."""
    final_rate: Annotated[float, Range(1e-30, checks.LARGEST)] = 0.01
    """Learning rate at the end of the run, as a fraction of `rate`."""
    average: Annotated[float, Range(0.0, 0.9999)] = 0.95
    """Decay per step of the exponential moving average of the parameters. Renderings use the
    averaged parameters."""

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.number("optimizer.beta2", self.beta2, low=self.beta1**2 + 1e-6, high=0.9999)

    def factor_at(self, progress: float, step: int) -> float:
        """Return the learning rate at `step`, counted from 0, after the fraction `progress` of the
        run, divided by `rate`."""
        rising = min((step + 1) / self.warmup_steps, 1.0) if self.warmup_steps else 1.0
        falling = max(0.0, (progress - self.hold) / (1.0 - self.hold))
        return rising * self.final_rate**falling


REFINED = ("poses", "lenses", "exposures", "colors")
"""Names of the settings that enable refinement."""

_Rate = Annotated[float, Range(1e-30, 1.0)]


@dataclass(frozen=True)
class RefineConfig(Settings):
    """Refinement of training views: camera poses, intrinsics, exposures, and colors.

    The parameters of the views are optimized together with the field (BARF, Lin et al. 2021), with
    separate learning rates.
    """

    _prefix = "refine."

    poses: bool = False  # Refine the rotation and position of each camera.
    lenses: bool = False  # Refine focal length, k1, and k2 of each lens. Views can share a lens.
    exposures: bool | None = None
    """Refine the exposure of each image, as one factor per color channel. By default (auto),
    exposures are refined if the colors of sparse points differ between images."""
    colors: bool = False  # Refine the colors of each image with its own affine map.
    depth_scale: bool | None = None
    """Refine the scale and the shift of all measured depths. By default (auto), they are refined if
    the scene has depth images, but its poses are not in the units of the sensor, as after structure
    from motion."""
    pose_rate: _Rate = 5e-4
    """Learning rate of poses after the warm-up. One step moves the image content by about this
    angle, in radians. Reduce the rate if poses diverge."""
    lens_rate: _Rate = 2e-4
    """Learning rate of lenses after the warm-up. One step moves the image content by about this
    angle, in radians. Reduce the rate if the lens parameters diverge."""
    exposure_rate: _Rate = 2e-3  # Initial learning rate of exposures, in log brightness.
    depth_rate: _Rate = 1e-3  # Initial learning rate of the log scale and the shift of depths.
    final_rate: _Rate = 0.01
    """Ratio of the final to the initial learning rates of poses, lenses, exposures, colors, and the
    depth scale, in addition to the decay of the field's learning rate."""

    @property
    def changes_colors(self) -> bool:
        """Whether exposures or colors are refined. Only training views have these parameters."""
        return bool(self.exposures or self.colors)

    @property
    def cameras(self) -> bool:
        """Whether poses or lenses are refined."""
        return self.poses or self.lenses
