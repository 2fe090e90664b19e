"""Refinement of the training views: which parameters are learned, at which rates, and when."""

from __future__ import annotations

from dataclasses import dataclass

from nerfmac.common import checks

REFINED = ("poses", "lenses", "exposures", "colours")
"""Names of the switches for what can be refined."""


@dataclass(frozen=True)
class RefineConfig:
    """Refinement of training views: camera poses, lenses, exposures and colours.

    They are learned with the field (BARF, Lin et al. 2021), by Adam with rates of their own.
    """

    poses: bool = False  # Refine each camera's rotation and position.
    lenses: bool = False  # Refine focal length, k1 and k2 of each lens; views may share a lens.
    exposures: bool | None = None
    """Refine each picture's brightness, one factor per colour channel; by default (auto) where the
    colours of the tracks of sparse points differ between pictures."""
    colours: bool = False  # Refine each picture's colours, by an affine map of its own.
    every: int = 8  # Train poses and lenses in one of so many steps, after the coarse steps.
    pose_rate: float = 5e-4
    """Learning rate of poses at the start: radians by which a step moves the picture's points."""
    lens_rate: float = 2e-4
    """Learning rate of lenses at the start: radians by which a step moves the picture's points."""
    exposure_rate: float = 2e-3  # Learning rate of exposures at the start; 1 is a factor of e.
    colour_rate: float = 1e-3  # Learning rate of colour maps at the start; colours are in [0, 1].
    final_rate: float = (
        0.01  # Factor of these rates at the end of the run, times the field's own decay.
    )
    l2: float = 0.0  # Factor of the L2 penalty on refinement.
    coarse_steps: int = 1000  # With poses or lenses: steps until all levels of the field take part.
    warmup_steps: int = 250  # Steps over which the rates of poses and lenses rise from 0.

    def __post_init__(self) -> None:
        for name in REFINED:
            if getattr(self, name) is not None or name != "exposures":
                checks.flag(f"refine.{name}", getattr(self, name))
        for name in ("pose_rate", "lens_rate", "exposure_rate", "colour_rate", "final_rate"):
            checks.number(f"refine.{name}", getattr(self, name), low=1e-30, high=1.0)
        checks.number("refine.every", self.every, low=1, high=1024, whole=True)
        checks.number("refine.l2", self.l2, low=0.0)
        checks.number("refine.coarse_steps", self.coarse_steps, low=0, whole=True)
        checks.number("refine.warmup_steps", self.warmup_steps, low=0, whole=True)

    @property
    def changes_colours(self) -> bool:
        """Whether exposures or colours are refined, which test views have none of."""
        return bool(self.exposures or self.colours)

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
        """Fraction of the field's levels, in [0, 1], that take part in `step`."""
        return _fraction(step, self.coarse_steps)

    def warmup_at(self, step: int) -> float:
        """Factor in [0, 1] on the rates of poses and lenses in `step`.

        Early fields say nothing about cameras, yet Adam's steps have full length from the start.
        """
        return _fraction(step, self.warmup_steps)


def _fraction(step: int, steps: int) -> float:
    return min(step / steps, 1.0) if steps else 1.0
