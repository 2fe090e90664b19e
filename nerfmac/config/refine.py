"""Settings for refining training views: parameters, learning rates, and schedule."""

from __future__ import annotations

from dataclasses import dataclass

from nerfmac.common import checks

REFINED = ("poses", "lenses", "exposures", "colors")
"""Names of the settings that enable refinement."""


@dataclass(frozen=True)
class RefineConfig:
    """Refinement of training views: camera poses, intrinsics, exposures, and colors.

    The parameters of the views are optimized together with the field (BARF, Lin et al. 2021), with
    separate learning rates.
    """

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
    every: int = 8  # Update poses and lenses in every Nth step.
    pose_rate: float = 5e-4
    """Learning rate of poses after the warm-up. One step moves the image content by about this
    angle, in radians. Reduce the rate if poses diverge."""
    lens_rate: float = 2e-4
    """Learning rate of lenses after the warm-up. One step moves the image content by about this
    angle, in radians. Reduce the rate if the lens parameters diverge."""
    exposure_rate: float = 2e-3  # Initial learning rate of exposures, in log brightness.
    color_rate: float = 1e-3  # Initial learning rate of the affine maps of colors.
    depth_rate: float = 1e-3  # Initial learning rate of the log scale and the shift of depths.
    final_rate: float = 0.01
    """Ratio of the final to the initial learning rates of poses, lenses, exposures, colors, and the
    depth scale, in addition to the decay of the field's learning rate."""
    l2: float = 0.0  # Weight of the L2 penalty on the refined parameters of views.
    warmup_steps: int = 250  # Warm-up steps of the learning rates of poses and lenses.

    def __post_init__(self) -> None:
        for name in REFINED:
            if getattr(self, name) is not None or name != "exposures":
                checks.flag(f"refine.{name}", getattr(self, name))
        if self.depth_scale is not None:
            checks.flag("refine.depth_scale", self.depth_scale)
        rates = ("pose_rate", "lens_rate", "exposure_rate", "color_rate", "depth_rate")
        for name in (*rates, "final_rate"):
            checks.number(f"refine.{name}", getattr(self, name), low=1e-30, high=1.0)
        checks.number("refine.every", self.every, low=1, high=1024, whole=True)
        checks.number("refine.l2", self.l2, low=0.0)
        checks.number("refine.warmup_steps", self.warmup_steps, low=0, whole=True)

    @property
    def changes_colors(self) -> bool:
        """Whether exposures or colors are refined. Only training views have these parameters."""
        return bool(self.exposures or self.colors)

    @property
    def cameras(self) -> bool:
        """Whether poses or lenses are refined."""
        return self.poses or self.lenses

    def learns_cameras_at(self, step: int) -> bool:
        """Return whether `step`, counted from 0, updates poses and lenses."""
        return self.cameras and step % self.every == 0

    def camera_updates(self, step: int) -> int:
        """Return the number of steps from 0 to `step`, inclusive, that update poses and lenses."""
        return step // self.every + 1

    def warmup_at(self, step: int) -> float:
        """Return the warm-up factor in [0, 1] for the learning rates of poses and lenses at `step`.

        Before the field is trained, camera gradients are random. Adam normalizes gradients, so
        without a warm-up, the first updates would nevertheless have full length.
        """
        return min(step / self.warmup_steps, 1.0) if self.warmup_steps else 1.0
