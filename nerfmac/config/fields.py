"""Settings of the encodings and networks that map positions and directions to density and color."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from nerfmac.common import InputError, checks
from nerfmac.config.settings import Range, Settings

FEATURES = (1, 2, 4, 8)  # Supported numbers of features per table entry, as in tiny-cuda-nn.

WIDEST_FEATURES = 128
"""Maximum total number of features over all levels. The networks' gradient kernel does not have
enough threadgroup memory for more features."""

WIDEST_LAYERS = 4
"""Maximum total number of hidden layers of the density network and the color network at width 128.
With this many layers, the gradient kernel uses all registers."""

WIDTHS = (16, 32, 64, 128)
"""Supported widths of hidden layers, as in the fully fused networks of tiny-cuda-nn."""


@dataclass(frozen=True)
class HashGridConfig(Settings):
    """Settings of the multiresolution hash encoding."""

    _prefix = "grid."

    levels: Annotated[int, Range(2, 32)] = 16
    """Number of resolution levels of the grid. levels x features must be a multiple of 16. Larger
    values reduce the ratio between consecutive resolutions and slow down training."""
    features: int = 2
    """Number of features per table entry: 1, 2, 4, or 8. Larger values increase the table size and
    slow down training."""
    log2_entries: Annotated[int, Range(8, 24)] = 19
    """Base-2 logarithm of the maximum number of table entries per level. Larger values reduce hash
    collisions but use more memory."""
    coarsest: Annotated[int, Range(2)] = 16
    """Number of cells along each side of the scene cube at the coarsest level."""
    finest: int | None = None
    """Number of cells per scene unit at the finest level. By default (auto), the number depends on
    the image resolution."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.features not in FEATURES:
            raise InputError(f"grid.features is {self.features}; expected 1, 2, 4, or 8")
        checks.optional_number("grid.finest", self.finest, low=self.coarsest, high=2**20)
        features = self.levels * self.features
        if features % 16 or features > WIDEST_FEATURES:
            raise InputError(
                f"grid.levels * grid.features is {features}; expected a multiple of 16, the "
                f"networks' unit of width, up to {WIDEST_FEATURES}"
            )


@dataclass(frozen=True)
class NetworkConfig(Settings):
    """Sizes of the density network and of the color network."""

    _prefix = "networks."

    width: int = 64
    """Number of neurons per hidden layer: 16, 32, 64, or 128. Larger values improve quality and
    slow down training."""
    density_layers: Annotated[int, Range(1, 4)] = 1
    """Number of hidden layers of the density network, 1 to 4. At width 128, the density and color
    networks together have at most 4 hidden layers. Larger values slow down training."""
    color_layers: Annotated[int, Range(1, 4)] = 2
    """Number of hidden layers of the color network, 1 to 4. At width 128, the density and color
    networks together have at most 4 hidden layers. Larger values slow down training."""
    density_bias: Annotated[int, Range(0, 8)] = 0
    """Constant that is subtracted from the logarithm of the density if the images have an alpha
    channel. Larger values reduce the initial density."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.width not in WIDTHS:
            raise InputError(f"networks.width is {self.width}; expected 16, 32, 64, or 128")
        layers = self.density_layers + self.color_layers
        if layers > WIDEST_LAYERS and self.width == WIDTHS[-1]:
            raise InputError(
                f"networks.width is {self.width}; expected up to 64 with {layers} hidden layers"
            )


@dataclass(frozen=True)
class VanillaConfig(Settings):
    """Settings of the original NeRF (Mildenhall et al. 2020): sizes of the networks, and numbers of
    samples per ray."""

    _prefix = "vanilla."

    width: Annotated[int, Range(2, 1024)] = 256
    """Number of neurons per hidden layer, an even number. The layer that reads the direction has
    half as many neurons."""
    layers: Annotated[int, Range(2, 32)] = 8  # Number of hidden layers before the density output.
    skip: int = 4
    """Index, from 0, of the hidden layer after which the encoded position is concatenated to the
    activations again."""
    # Beyond 16 frequencies, float32 represents the fractional part of the sine's argument with only
    # a few bits.
    position_frequencies: Annotated[int, Range(1, 16)] = 10
    """Number of frequencies of the position encoding. Larger values reproduce finer details."""
    direction_frequencies: Annotated[int, Range(1, 16)] = 4
    """Number of frequencies of the direction encoding. Larger values reproduce sharper
    reflections."""
    coarse: Annotated[int, Range(2, 1024)] = 64
    """Number of evenly spaced samples per ray for the coarse network. Larger values detect thinner
    objects but slow down training and rendering."""
    fine: Annotated[int, Range(1, 1024)] = 128
    """Number of additional samples per ray for the fine network, at distances where the coarse
    network predicts density. Larger values give sharper renderings but slow down training and
    rendering."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.width % 2:
            raise InputError(f"vanilla.width is {self.width}; expected an even number")
        checks.number("vanilla.skip", self.skip, low=0, high=self.layers - 2)
