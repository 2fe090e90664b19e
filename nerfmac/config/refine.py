"""Settings of the refinement of training views: its parameters, learning rates and schedule."""

from __future__ import annotations

from dataclasses import dataclass

from nerfmac.common import checks

REFINED = ("poses", "lenses", "exposures", "colors")
"""Names of the switches of refinement."""


@dataclass(frozen=True)
class RefineConfig:
    """Refinement of training views: camera poses, lenses, exposures and colors.

    They are learned with the field (BARF, Lin et al. 2021), by Adam with rates of their own.
    """

    poses: bool = False  # Refine each camera's rotation and position.
    lenses: bool = False  # Refine focal length, k1 and k2 of each lens, which views may share.
    exposures: bool | None = None
    """Refine each image's exposure, a factor per color channel; by default (auto) where the
    colors of the tracks of sparse points differ between images."""
    colors: bool = False  # Refine each image's colors: an affine map per image.
    every: int = 8  # After coarse-steps, train poses and lenses only in every Nth step.
    pose_rate: float = 5e-4
    """Learning rate of poses after their warm-up: one step moves what an image shows by about this
    angle, in radians. Lower it if poses diverge."""
    lens_rate: float = 2e-4
    """Learning rate of lenses after their warm-up: one step moves what an image shows by about
    this angle, in radians. Lower it if lenses diverge."""
    exposure_rate: float = 2e-3  # Learning rate of exposures at the start, in log brightness.
    color_rate: float = 1e-3  # Learning rate of the colors' affine maps at the start.
    final_rate: float = 0.01
    """Factor on the learning rates of poses, lenses, exposures and colors at the end of the
    run, on top of the field's own decay."""
    l2: float = 0.0  # L2 penalty on refinement; larger: closer to the views as given.
    coarse_steps: int = 1000
    """With poses or lenses: steps over which levels are faded in from coarse to fine (BARF)."""
    warmup_steps: int = 250  # Steps in which the learning rates of poses and lenses rise from 0.

    def __post_init__(self) -> None:
        for name in REFINED:
            if getattr(self, name) is not None or name != "exposures":
                checks.flag(f"refine.{name}", getattr(self, name))
        for name in ("pose_rate", "lens_rate", "exposure_rate", "color_rate", "final_rate"):
            checks.number(f"refine.{name}", getattr(self, name), low=1e-30, high=1.0)
        checks.number("refine.every", self.every, low=1, high=1024, whole=True)
        checks.number("refine.l2", self.l2, low=0.0)
        checks.number("refine.coarse_steps", self.coarse_steps, low=0, whole=True)
        checks.number("refine.warmup_steps", self.warmup_steps, low=0, whole=True)

    @property
    def changes_colors(self) -> bool:
        """Whether exposures or colors are refined, which test views have none of."""
        return bool(self.exposures or self.colors)

    @property
    def cameras(self) -> bool:
        """Whether poses or lenses are refined."""
        return self.poses or self.lenses

    def learns_cameras_at(self, step: int) -> bool:
        """Whether `step`, counted from 0, trains poses and lenses."""
        return self.cameras and (step < self.coarse_steps or step % self.every == 0)

    def camera_updates(self, step: int) -> int:
        """Number of steps from 0 to `step`, inclusive, that train poses and lenses."""
        if step < self.coarse_steps:
            return step + 1
        return self.coarse_steps + step // self.every - (self.coarse_steps - 1) // self.every

    def is_coarse_at(self, step: int) -> bool:
        """Whether `step`, counted from 0, leaves out the field's finest levels (BARF)."""
        return self.cameras and step < self.coarse_steps

    def level_progress_at(self, step: int) -> float:
        """Coarse-to-fine progress in [0, 1] at `step`, for `Field.coarse_to_fine`."""
        return _fraction(step, self.coarse_steps)

    def warmup_at(self, step: int) -> float:
        """Factor in [0, 1] on the rates of poses and lenses in `step`.

        Early fields say nothing about cameras, yet Adam's steps have full length from the start.
        """
        return _fraction(step, self.warmup_steps)


def _fraction(step: int, steps: int) -> float:
    return min(step / steps, 1.0) if steps else 1.0
