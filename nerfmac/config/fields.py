"""Settings of the encodings and networks, which map positions and directions to density and
color."""

from __future__ import annotations

from dataclasses import dataclass, replace

from nerfmac.common import checks
from nerfmac.common.checks import InputError

FEATURES = (1, 2, 4, 8)
"""Supported numbers of features per table entry, as in tiny-cuda-nn."""

WIDEST_FEATURES = 128
"""Maximum total number of features of all levels. The gradient kernel of the networks does not have
enough threadgroup memory for more features."""

WIDEST_LAYERS = 4
"""Maximum total number of hidden layers of both networks at the largest width. With this number,
the gradient kernel uses all registers."""

WIDTHS = (16, 32, 64, 128)
"""Supported widths of hidden layers, as in the fully fused networks of tiny-cuda-nn."""


@dataclass(frozen=True)
class HashGridConfig:
    """Settings of the multiresolution hash encoding."""

    levels: int = 16
    """Number of resolution levels of the grid. levels x features must be a multiple of 16. Larger
    values give smaller ratios between resolutions and slower training."""
    features: int = 2
    """Number of features per table entry: 1, 2, 4, or 8. Larger values give larger tables and
    slower training."""
    log2_entries: int = 19
    """Base-2 logarithm of the maximum number of table entries per level. Larger values give fewer
    hash collisions and use more memory."""
    coarsest: int = 16
    """Number of cells along each side of the scene cube at the coarsest level."""
    finest: int | None = None
    """Number of cells per scene unit at the finest level. By default (auto), it depends on the
    resolution of the images."""

    def __post_init__(self) -> None:
        checks.number("grid.levels", self.levels, low=2, high=32, whole=True)
        checks.number("grid.features", self.features, whole=True)
        if self.features not in FEATURES:
            raise InputError(f"grid.features is {self.features}; expected 1, 2, 4, or 8")
        checks.number("grid.log2_entries", self.log2_entries, low=8, high=24, whole=True)
        checks.number("grid.coarsest", self.coarsest, low=2, whole=True)
        checks.optional_number(
            "grid.finest", self.finest, low=self.coarsest, high=2**20, whole=True
        )
        features = self.levels * self.features
        if features % 16 or features > WIDEST_FEATURES:
            raise InputError(
                f"grid.levels * grid.features is {features}; expected a multiple of 16, the "
                f"networks' unit of width, up to {WIDEST_FEATURES}"
            )

    def for_pixels(self, per_unit: float) -> HashGridConfig:
        """Return this configuration with a `finest` level for `per_unit` pixels per scene unit, if
        it is None.

        The finest level has about five cells for four pixels. A finer table learns details that
        only one view contains. For the full-size Chair, 1024 cells for 835 pixels are better than
        512 cells. For Lego at half size, 512 cells for 417 pixels are better than 1024 and 2048
        cells.
        """
        if self.finest is not None:
            return self
        return replace(self, finest=round(min(max(1.25 * per_unit, 4 * self.coarsest), 4096)))


@dataclass(frozen=True)
class NetworkConfig:
    """Settings of the density network and the color network, which reads the outputs of the density
    network."""

    width: int = 64
    """Number of neurons per hidden layer: 16, 32, 64, or 128. Larger values give better quality and
    slower training."""
    density_layers: int = 1
    """Number of hidden layers of the density network, 1 to 4. At width 128, both networks have at
    most 4 hidden layers in total. Larger values give slower training."""
    color_layers: int = 2
    """Number of hidden layers of the color network, 1 to 4; see density-layers. Larger values give
    slower training."""
    density_bias: int = 0
    """Constant that is subtracted from the logarithm of the density, exp(x - bias), if the images
    have alpha. With larger values, the initial density is lower."""

    def __post_init__(self) -> None:
        checks.number("networks.width", self.width, whole=True)
        if self.width not in WIDTHS:
            raise InputError(f"networks.width is {self.width}; expected 16, 32, 64, or 128")
        for name, low, high in (
            ("density_layers", 1, 4),
            ("color_layers", 1, 4),
            ("density_bias", 0, 8),
        ):
            checks.number(f"networks.{name}", getattr(self, name), low=low, high=high, whole=True)
        layers = self.density_layers + self.color_layers
        if layers > WIDEST_LAYERS and self.width == WIDTHS[-1]:
            raise InputError(
                f"networks.width is {self.width}; expected up to 64 with {layers} hidden layers"
            )


@dataclass(frozen=True)
class VanillaConfig:
    """Settings of the original NeRF (Mildenhall et al. 2020): coarse and fine networks and their
    samples."""

    width: int = 256
    """Number of neurons per hidden layer, an even number. The layer that reads the direction has
    half as many."""
    layers: int = 8
    """Number of hidden layers before the density output."""
    skip: int = 4
    """Index, from 0, of the hidden layer after which the encoded position is concatenated again."""
    position_frequencies: int = 10
    """Number of position encoding frequencies. Larger values give finer details."""
    direction_frequencies: int = 4
    """Number of direction encoding frequencies. Larger values give sharper reflections."""
    coarse: int = 64
    """Number of evenly spaced samples per ray for the coarse network. Larger values detect thinner
    objects and are slower."""
    fine: int = 128
    """Number of additional samples per ray where the coarse network predicts density. Larger values
    give sharper renderings and are slower."""

    def __post_init__(self) -> None:
        checks.number("vanilla.width", self.width, low=2, high=1024, whole=True)
        if self.width % 2:
            raise InputError(f"vanilla.width is {self.width}; expected an even number")
        checks.number("vanilla.layers", self.layers, low=2, high=32, whole=True)
        checks.number("vanilla.skip", self.skip, low=0, high=self.layers - 2, whole=True)
        # Beyond 16 frequencies, float32 represents the argument of the sine with only a few bits.
        for name in ("position_frequencies", "direction_frequencies"):
            checks.number(f"vanilla.{name}", getattr(self, name), low=1, high=16, whole=True)
        checks.number("vanilla.coarse", self.coarse, low=2, high=1024, whole=True)
        checks.number("vanilla.fine", self.fine, low=1, high=1024, whole=True)
