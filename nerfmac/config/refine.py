"""Settings for refining training views: parameters and learning rates."""

from dataclasses import dataclass
from typing import Annotated

from nerfmac.config.settings import Range, Settings

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
