"""What training corrects of its views."""

from __future__ import annotations

from dataclasses import dataclass

from nerfmac.common import checks

REFINED = ("poses", "lenses", "exposures", "colours")
"""What can be corrected: names of the switches."""


@dataclass(frozen=True)
class RefineConfig:
    """Corrections of the training views: their cameras, their lenses, their pictures' colours.

    They are learned with the field (BARF, Lin et al. 2021), by Adam with rates of their own.
    """

    poses: bool = False  # Correct each camera's rotation and place.
    lenses: bool = False  # Correct each camera's focal length and k1, k2; views may share a camera.
    exposures: bool = False  # Correct each picture's brightness, one number for each colour.
    colours: bool = False  # Correct each picture's colours, by an affine map of its own.
    every: int = 8  # After the coarse steps, one step in so many learns poses and lenses.
    pose_rate: float = 5e-4  # Learning rate of poses at the start, in radians of what cameras see.
    lens_rate: float = 2e-4  # Learning rate of lenses at the start, likewise.
    exposure_rate: float = 2e-3  # Learning rate of exposures at the start, in powers of e.
    colour_rate: float = 1e-3  # Learning rate of colours' maps at the start, of colours in [0, 1].
    final_rate: float = 0.01  # These rates' factor at the end, beside the field's own.
    l2: float = 0.0  # Factor of the L2 penalty on corrections.
    coarse_steps: int = 1000  # With poses or lenses: steps until the field has its finest details.
    warmup_steps: int = 250  # Steps over which the rates of poses and lenses rise from 0.

    def __post_init__(self) -> None:
        for name in REFINED:
            checks.flag(f"refine.{name}", getattr(self, name))
        for name in ("pose_rate", "lens_rate", "exposure_rate", "colour_rate", "final_rate"):
            checks.number(f"refine.{name}", getattr(self, name), low=1e-30, high=1.0)
        checks.number("refine.every", self.every, low=1, high=1024, whole=True)
        checks.number("refine.l2", self.l2, low=0.0)
        checks.number("refine.coarse_steps", self.coarse_steps, low=0, whole=True)
        checks.number("refine.warmup_steps", self.warmup_steps, low=0, whole=True)

    @property
    def cameras(self) -> bool:
        """Whether anything of the cameras is corrected, and not of their pictures alone."""
        return self.poses or self.lenses

    def moves_at(self, step: int) -> bool:
        """Whether `step`, counted from 0, learns poses and lenses."""
        return self.cameras and (step < self.coarse_steps or step % self.every == 0)

    def moves_until(self, step: int) -> int:
        """How many steps learn poses and lenses, up to `step`, counted from 0, and with it."""
        if step < self.coarse_steps:
            return step + 1
        return self.coarse_steps + step // self.every - (self.coarse_steps - 1) // self.every

    def is_coarse_at(self, step: int) -> bool:
        """Whether `step`, counted from 0, leaves out some of the field's detail."""
        return self.cameras and step < self.coarse_steps

    def detail_at(self, step: int) -> float:
        """How much of the field's detail takes part in `step`, in [0, 1]."""
        return _part(step, self.coarse_steps)

    def warmup_at(self, step: int) -> float:
        """The part, in [0, 1], of their rates by which poses and lenses are learned in `step`.

        The first fields say nothing of cameras, and Adam's steps are as long for nothing.
        """
        return _part(step, self.warmup_steps)


def _part(step: int, steps: int) -> float:
    """How much of the first `steps` is done before `step`, in [0, 1]."""
    return min(step / steps, 1.0) if steps else 1.0
