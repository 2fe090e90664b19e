"""Encodings and networks: from positions and directions to density and color."""

from __future__ import annotations

from dataclasses import dataclass, replace

from nerfmac.common import checks
from nerfmac.common.checks import InputError

FEATURES = (1, 2, 4, 8)
"""Allowed numbers of features per table entry, as in tiny-cuda-nn."""

WIDEST_FEATURES = 128
"""Largest number of features of all levels together: the networks' gradient kernel has memory for
no more."""

WIDEST_LAYERS = 4
"""Largest number of hidden layers of both networks together at the largest width: with these, their
gradient kernel fills the registers."""

WIDTHS = (16, 32, 64, 128)
"""Allowed widths of hidden layers, as in tiny-cuda-nn's fully fused networks."""


@dataclass(frozen=True)
class HashGridConfig:
    """The multiresolution hash encoding."""

    levels: int = 16
    """Number of resolutions of the grid. levels x features must be a multiple of 16. More: smaller
    steps from one resolution to the next, slower training."""
    features: int = 2
    """Features of each table entry: 1, 2, 4 or 8. More: a larger table, slower training."""
    log2_entries: int = 19
    """Largest number of entries of a level's table, as a power of two. More: fewer hash collisions,
    more memory."""
    coarsest: int = 16
    """Number of cells along a side of the scene's cube at the first, coarsest level."""
    finest: int = 0
    """Cells per scene unit at the last, finest level. 0: chosen from the resolution of the
    images."""

    def __post_init__(self) -> None:
        checks.number("grid.levels", self.levels, low=2, high=32, whole=True)
        checks.number("grid.features", self.features, whole=True)
        if self.features not in FEATURES:
            raise InputError(f"grid.features is {self.features}; expected 1, 2, 4 or 8")
        checks.number("grid.log2_entries", self.log2_entries, low=8, high=24, whole=True)
        checks.number("grid.coarsest", self.coarsest, low=2, whole=True)
        if self.finest:
            checks.number("grid.finest", self.finest, low=self.coarsest, high=2**20, whole=True)
        features = self.levels * self.features
        if features % 16 or features > WIDEST_FEATURES:
            raise InputError(
                f"grid.levels * grid.features is {features}; expected a multiple of 16, the "
                f"networks' unit of width, up to {WIDEST_FEATURES}"
            )

    def for_pixels(self, per_unit: float) -> HashGridConfig:
        """This configuration; a `finest` of 0 is chosen for `per_unit` pixels per scene unit.

        Five cells for four pixels: a finer table learns details that no other view confirms. On the
        full-size chair 1024 cells for 835 pixels beat 512; on Lego at half the size 512 cells for
        417 pixels beat 1024 and 2048.
        """
        cells = round(min(max(1.25 * per_unit, 4 * self.coarsest), 4096))
        return self if self.finest else replace(self, finest=cells)


@dataclass(frozen=True)
class NetworkConfig:
    """The two stacked MLPs: density, then color."""

    width: int = 64
    """Neurons of each hidden layer: 16, 32, 64 or 128. More: better quality, slower training."""
    density_layers: int = 1
    """Hidden layers of the density network, 1 to 4; at width 128 both networks together have at
    most 4. More: slower training."""
    color_layers: int = 2
    """Hidden layers of the color network, 1 to 4; see density-layers. More: slower training."""
    density_bias: int = 0
    """For images with alpha: constant subtracted from the logarithm of the density, exp(x -
    bias). Larger: training starts in thinner fog."""

    def __post_init__(self) -> None:
        checks.number("networks.width", self.width, whole=True)
        if self.width not in WIDTHS:
            raise InputError(f"networks.width is {self.width}; expected 16, 32, 64 or 128")
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
    """NeRF as first published (Mildenhall et al. 2020): two equal networks and their samples."""

    width: int = 256
    """Neurons of a hidden layer, an even number; the layer that reads the direction has half."""
    layers: int = 8
    """Number of hidden layers before the density output."""
    skip: int = 4
    """Index, from 0, of the hidden layer after which the encoded position is fed in again."""
    position_frequencies: int = 10
    """Frequencies of the positional encoding of positions. More: finer details."""
    direction_frequencies: int = 4
    """Frequencies of the positional encoding of directions. More: sharper reflections."""
    coarse: int = 64
    """Evenly spread samples per ray, for the coarse network. More: misses fewer things, slower."""
    fine: int = 128
    """Further samples per ray, where the coarse network finds density. More: sharper, slower."""

    def __post_init__(self) -> None:
        checks.number("vanilla.width", self.width, low=2, high=1024, whole=True)
        if self.width % 2:
            raise InputError(f"vanilla.width is {self.width}; expected an even number")
        checks.number("vanilla.layers", self.layers, low=2, high=32, whole=True)
        checks.number("vanilla.skip", self.skip, low=0, high=self.layers - 2, whole=True)
        # Beyond 16 frequencies float32 has few bits left of a sine's argument.
        for name in ("position_frequencies", "direction_frequencies"):
            checks.number(f"vanilla.{name}", getattr(self, name), low=1, high=16, whole=True)
        checks.number("vanilla.coarse", self.coarse, low=2, high=1024, whole=True)
        checks.number("vanilla.fine", self.fine, low=1, high=1024, whole=True)
