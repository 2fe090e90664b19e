"""Encodings of positions as input features for a small MLP.

An encoding stores no parameters. Trained parameters, such as the table of a hash grid, are passed
to each call.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import exp, floor, log, pi

import mlx.core as mx

from nerfmac.backend import working_dtype
from nerfmac.config import Config, HashGridConfig, known
from nerfmac.fields.field import Parameters, ParameterSpec
from nerfmac.geometry import Bounds, Rays, Samples
from nerfmac.ops.hash_encode import HashLevels, hash_encode


class Encoding(ABC):
    """Base class of position encodings.

    An encoding maps positions to features. Subclass `Encoding` to use a custom encoding in an
    `EncodedField`.

    Examples:
        >>> class RandomFourier(nerfmac.Encoding):  # Tancik et al. 2020
        ...     outputs = 32
        ...
        ...     def __call__(self, parameters, samples, rays):
        ...         waves = 10.0 * mx.random.normal((3, 16), key=mx.random.key(0))
        ...         phase = samples.position @ waves
        ...         features = mx.concatenate([mx.sin(phase), mx.cos(phase)], axis=1)
        ...         return features.astype(nerfmac.backend.working_dtype())
        >>> def fourier_field(config, bounds):
        ...     return nerfmac.EncodedField(RandomFourier(), config.networks)
        >>> method = nerfmac.Method(field=fourier_field)
        >>> run = nerfmac.train(scene, "tiny", nerfmac.Goal(steps=20), method=method)
    """

    @property
    @abstractmethod
    def outputs(self) -> int:
        """Number of features. The networks require a multiple of 16 that is at most 128."""

    @property
    def parameter_specs(self) -> Mapping[str, ParameterSpec]:
        """Declarations of the parameters, keyed by name. By default, an encoding has no
        parameters."""
        return {}

    def init(self, key: mx.array) -> Parameters:
        """Initialize the parameters.

        Args:
            key: Random key.

        Returns:
            float32 array for each name in `parameter_specs`.
        """
        return {}

    @abstractmethod
    def __call__(self, parameters: Parameters, samples: Samples, rays: Rays) -> mx.array:
        """Return the features of packed samples.

        Args:
            parameters: Parameters of the field, including the parameters of the encoding.
            samples: Packed samples. The features of unused slots are arbitrary.
            rays: Rays of the samples.

        Returns:
            Features (slots, outputs) with the dtype `nerfmac.backend.working_dtype()`. The
            features must be differentiable with respect to the parameters and, for camera
            refinement, with respect to the positions.
        """


@dataclass(frozen=True)
class HashGrid(Encoding):
    """Multiresolution hash encoding (Müller et al. 2022) of positions inside `bounds`."""

    config: HashGridConfig
    bounds: Bounds

    @cached_property
    def levels(self) -> HashLevels:
        """Resolution levels, from `coarsest` cells along each side of the cube to `finest` cells
        per scene unit."""
        return self._levels(self.bounds.cells_across(known("grid.finest", self.config.finest)))

    def _levels(self, finest: float) -> HashLevels:
        """Return resolution levels from `coarsest` to `finest` cells along each side of the scene
        cube."""
        config = self.config
        growth = exp(log(finest / config.coarsest) / (config.levels - 1))
        sizes = config.levels, config.log2_entries, config.coarsest, growth
        return HashLevels(*sizes, self.bounds.extent)

    @property
    def cells_per_unit(self) -> tuple[float, ...]:
        """Resolution of each level, from the coarsest to the finest: number of cells per scene
        unit. The features of a level are interpolated between vertices at this spacing."""
        return tuple(scale for scale, _ in self.levels.grids)

    @property
    def outputs(self) -> int:
        """Total number of features of all levels."""
        return self.config.levels * self.config.features

    @property
    def parameter_specs(self) -> dict[str, ParameterSpec]:
        """Declaration of the parameter `table` (entries, features)."""
        return {"table": ParameterSpec((self.levels.entries, self.config.features))}

    def init(self, key: mx.array) -> Parameters:
        """Initialize the table with values drawn uniformly from [-1e-4, 1e-4] (Müller et al. 2022,
        section 4).

        Args:
            key: Random key.

        Returns:
            float32 array (entries, features) with the name `table`.
        """
        shape = self.parameter_specs["table"].shape
        return {"table": mx.random.uniform(-1e-4, 1e-4, shape, key=key)}

    def __call__(self, parameters: Parameters, samples: Samples, rays: Rays) -> mx.array:
        """Return the features of packed samples, which depend only on their positions.

        Args:
            parameters: Parameters that include `table`.
            samples: Packed samples.
            rays: Rays of the samples, which are not used.

        Returns:
            Features (slots, outputs) of type `working_dtype()`. The features of level l are in the
            columns from l * `config.features` on.
        """
        return self.features(parameters, samples.position, samples.used)

    def features(
        self, parameters: Parameters, position: mx.array, used: mx.array | None = None
    ) -> mx.array:
        """Return the features of positions.

        Args:
            parameters: Parameters that include `table`.
            position: Scene coordinates (points, 3).
            used: Number of valid points at the start of `position`, int32 array (1,), or None if
                all points are valid. The features of the other points are arbitrary.

        Returns:
            Features (points, outputs) of type `working_dtype()`.
        """
        return hash_encode(position, parameters["table"], self.levels, used)


class DenseGrid(HashGrid):
    """Multiresolution dense grids, without hashing (Müller et al. 2022, figure 2d)."""

    @cached_property
    def levels(self) -> HashLevels:
        """Levels up to the highest resolution at which every vertex has its own table entry."""
        vertices = floor(2 ** (self.config.log2_entries / 3) + 1e-9)
        # In HashLevels, a level with c cells has ceil(c - 1) + 1 vertices along an axis. The result
        # is c or, because of rounding errors, c + 1. Subtracting 1 ensures that the vertices fit in
        # the table in both cases.
        return self._levels(max(vertices - 1, self.config.coarsest))


@dataclass(frozen=True)
class Frequencies:
    """Positional encoding of points or directions in [-1, 1]^3, without parameters.

    The features of a point p are

        (p, sin(2^0 pi p), cos(2^0 pi p), ..., sin(2^(L-1) pi p), cos(2^(L-1) pi p))

    where L is `count` (Mildenhall et al. 2020, equation 4). The features include p itself, as in
    the paper's published code but not in its equation.
    """

    count: int

    @property
    def outputs(self) -> int:
        """Number of features."""
        return 3 * (1 + 2 * self.count)

    def __call__(self, points: mx.array) -> mx.array:
        """Return the differentiable features (points, outputs) of points (points, 3)."""
        factors = pi * mx.power(2.0, mx.arange(self.count).astype(mx.float32))
        angles = points[:, None] * factors[:, None]
        waves = mx.stack([mx.sin(angles), mx.cos(angles)], axis=2)
        return mx.concatenate([points, waves.reshape(-1, 6 * self.count)], axis=1)


@dataclass(frozen=True)
class FrequencyEncoding(Encoding):
    """Positional encoding of positions inside `bounds`, padded with zeros to a multiple of 16
    features."""

    frequencies: Frequencies
    bounds: Bounds

    @property
    def outputs(self) -> int:
        """Number of features, including the padding."""
        return -(-self.frequencies.outputs // 16) * 16

    def __call__(self, parameters: Parameters, samples: Samples, rays: Rays) -> mx.array:
        """Return the differentiable features (slots, outputs) of the positions of samples."""
        encoded = self.frequencies(self.bounds.to_symmetric(samples.position))
        padding = mx.zeros((encoded.shape[0], self.outputs - self.frequencies.outputs))
        return mx.concatenate([encoded, padding], axis=1).astype(working_dtype())


def encoding_of(config: Config, bounds: Bounds) -> Encoding:
    """Create the encoding that a configuration selects.

    Args:
        config: Configuration of a run.
        bounds: The scene cube.

    Returns:
        Encoding of positions inside the scene cube.
    """
    if config.encoding == "frequency":
        return FrequencyEncoding(Frequencies(config.vanilla.position_frequencies), bounds)
    return {"hash": HashGrid, "dense": DenseGrid}[config.encoding](config.grid, bounds)
