"""What training corrects of its views."""

from __future__ import annotations

from dataclasses import dataclass

from nerfmac import checks


@dataclass(frozen=True)
class RefineConfig:
    """Corrections of the training views: where their cameras stood, how bright their pictures are.

    They are learned with the field (BARF, Lin et al. 2021), by Adam with rates of their own.
    """

    poses: bool = False  # Correct each camera's rotation and place.
    exposures: bool = False  # Correct each picture's brightness, one number for each colour.
    pose_rate: float = 5e-4  # Learning rate of poses at the start, in radians of what cameras see.
    exposure_rate: float = 2e-3  # Learning rate of exposures at the start, in powers of e.
    final_rate: float = 0.01  # These rates' factor at the end, beside the field's own.
    l2: float = 0.0  # Factor of the L2 penalty on corrections.
    coarse_steps: int = 1000  # With poses: steps until the field has its finest details.

    def __post_init__(self) -> None:
        for name in ("poses", "exposures"):
            checks.flag(f"refine.{name}", getattr(self, name))
        for name in ("pose_rate", "exposure_rate", "final_rate"):
            checks.number(f"refine.{name}", getattr(self, name), low=1e-30, high=1.0)
        checks.number("refine.l2", self.l2, low=0.0)
        checks.number("refine.coarse_steps", self.coarse_steps, low=0, whole=True)

    def detail_at(self, step: int) -> float:
        """How much of the field's detail takes part in `step`, in [0, 1]."""
        return min(step / self.coarse_steps, 1.0) if self.coarse_steps else 1.0
