"""`EncodedField`, an encoding of the position followed by two small MLPs.

The density network reads the encoded position. The color network reads the outputs of the density
network and spherical harmonics of the direction (Müller et al. 2022, section 5.4). With the hash
encoding, `EncodedField` is the field of Instant-NGP.
"""

from dataclasses import replace
from functools import partial
from math import ceil
from typing import Self

import mlx.core as mx

from nerfmac.backend import runs_kernel, working_dtype
from nerfmac.backend.apple import features_per_launch
from nerfmac.common import InputError
from nerfmac.config import WIDEST_FEATURES, Config, NetworkConfig
from nerfmac.fields.encodings import Encoding, HashGrid, encoding_of
from nerfmac.fields.field import Field, FieldOutput, Parameters, ParameterSpec, Tracer
from nerfmac.geometry import Bounds, Rays, Samples
from nerfmac.ops.composite import Composited
from nerfmac.ops.march import Occupied
from nerfmac.ops.networks import (
    MlpShape,
    NetworksShape,
    networks,
    networks_density,
    uniform_by_layer,
)
from nerfmac.ops.spherical_harmonics import spherical_harmonics
from nerfmac.ops.trace import TraceGeometry, trace


class EncodedField(Field):
    """Field that consists of a position encoding, a density network, and a color network.

    Examples:
        The hash grid has 8 levels with 2 features each, so the density network has 16 inputs. Its
        weights are stored in one array of 16 * 32 + 32 * 16 = 1024 values.

        >>> from nerfmac.config import HashGridConfig, NetworkConfig
        >>> from nerfmac.fields.encodings import HashGrid
        >>> from nerfmac.geometry import Viewpoints
        >>> grid = HashGridConfig(levels=8, features=2, log2_entries=14, finest=256)
        >>> encoding = HashGrid(grid, nerfmac.Bounds(1.0))
        >>> field = nerfmac.EncodedField(encoding, NetworkConfig(width=32))
        >>> parameters = field.init(mx.random.key(0))
        >>> sorted(parameters)
        ['color', 'density', 'table']
        >>> parameters["density"].shape
        (1024,)

        The field returns a density for each of 5 positions. The initial features are close to zero,
        so the initial density is close to exp(0) = 1.

        >>> position = mx.random.uniform(shape=(5, 3))
        >>> samples, rays = Viewpoints.of(None, step=0.01, cone=0.0).through(position)
        >>> mx.round(field.density(parameters, samples, rays), 1)
        array([1, 1, 1, 1, 1], dtype=float32)
    """

    networks_shape: NetworksShape
    """Layer widths and numbers of layers of the density network and the color network."""

    def __init__(self, encoding: Encoding, networks: NetworkConfig) -> None:
        """Create a field from an encoding and network settings.

        Args:
            encoding: Built-in or custom position encoding. Its number of outputs must be a multiple
                of 16 and at most 128.
            networks: Width and number of layers of both networks.

        Raises:
            InputError: If the number of outputs of the encoding is invalid.
        """
        if encoding.outputs > WIDEST_FEATURES:
            raise InputError(
                f"the encoding has {encoding.outputs} outputs; expected at most {WIDEST_FEATURES}, "
                "because the threadgroup memory of a Mac is too small for more features"
            )
        self.encoding = encoding
        layers = networks.density_layers, networks.color_layers
        self.networks_shape = NetworksShape(
            encoding.outputs, networks.width, *layers, networks.density_bias
        )

    @classmethod
    def of(cls, config: Config, bounds: Bounds) -> Self:
        """Create the field that a configuration selects.

        Args:
            config: Configuration of a run.
            bounds: The scene cube.

        Returns:
            Field with the encoding and the networks of the configuration.
        """
        return cls(encoding_of(config, bounds), config.networks)

    @property
    def plain_grid(self) -> HashGrid | None:
        """The encoding, if the field is exactly a `HashGrid` with two networks, which kernels can
        evaluate as a whole. The value is None for another encoding, and for a subclass that
        computes its features or its output in another way."""
        encoding, is_plain = self.encoding, type(self).__call__ is EncodedField.__call__
        if not isinstance(encoding, HashGrid) or not is_plain:
            return None
        return encoding if type(encoding).__call__ is HashGrid.__call__ else None

    @property
    def parameter_specs(self) -> dict[str, ParameterSpec]:
        """Declarations of the encoding's parameters and of the flat network weights `density` and
        `color`.

        The gradients of the features cannot overflow in single precision, and the network kernel
        clamps them in half precision. The gradient of a `HashGrid` table is then finite if the
        gradients of the network weights are, so `has_bounded_gradient` is True for the table. An
        overflow is still detected: if feature gradients were not finite before clamping, the
        gradients of the network weights are not finite either.
        """
        encoding = dict(self.encoding.parameter_specs)
        is_bounded = working_dtype() == mx.float32 or runs_kernel("networks")
        if is_bounded and self.plain_grid:
            encoding["table"] = replace(encoding["table"], has_bounded_gradient=True)
        weights = {
            name: ParameterSpec((network.weights,), is_l2_regularized=True)
            for name, network in self._networks.items()
        }
        return {**encoding, **weights}

    @property
    def _networks(self) -> dict[str, MlpShape]:
        return {"density": self.networks_shape.density, "color": self.networks_shape.color}

    def init(self, key: mx.array) -> Parameters:
        """Return random initial parameters of the encoding and the networks.

        Args:
            key: Random key.

        Returns:
            Parameters of the encoding, and the weights `density` and `color` of the networks.
        """
        encoding, *keys = mx.random.split(key, 3)
        networks = zip(self._networks.items(), keys, strict=True)
        weights = {name: uniform_by_layer(network, own) for (name, network), own in networks}
        return {**self.encoding.init(encoding), **weights}

    def __call__(self, parameters: Parameters, samples: Samples, rays: Rays) -> FieldOutput:
        """Return the density and color of packed samples.

        Args:
            parameters: Parameters of the field.
            samples: Packed samples.
            rays: Rays of the samples.

        Returns:
            Density (slots,) per scene unit and color (slots, 3) in [0, 1]. Density and color are
            differentiable with respect to the parameters and, if the encoding is differentiable,
            the positions.
        """
        features = self.encoding(parameters, samples, rays)
        basis = spherical_harmonics(mx.stop_gradient(rays.direction))
        weights = parameters["density"], parameters["color"]
        arrays = features, basis, samples.ray, samples.used, *weights
        return FieldOutput(*networks(*arrays, self.networks_shape))

    def density(self, parameters: Parameters, samples: Samples, rays: Rays) -> mx.array:
        """Return the density of packed samples, without a gradient.

        Args:
            parameters: Parameters of the field.
            samples: Packed samples.
            rays: Rays of the samples.

        Returns:
            Density (slots,) per scene unit. On Apple GPUs, no launch encodes more than
            `features_per_launch` features, because a longer launch would delay the display.
        """
        slots, most = (
            samples.position.shape[0],
            max(features_per_launch() / self.encoding.outputs, 1.0),
        )
        launches = ceil(slots / most)
        if launches <= 1:
            return self._density(parameters, samples, rays)
        size = ceil(slots / launches)
        parts = (samples.part(first, size) for first in range(0, slots, size))
        return mx.concatenate([self._density(parameters, part, rays) for part in parts])

    def _density(self, parameters: Parameters, samples: Samples, rays: Rays) -> mx.array:
        features = self.encoding(parameters, samples, rays)
        weights = parameters["density"], parameters["color"]
        return networks_density(features, *weights, self.networks_shape, samples.used)

    def tracer(self, parameters: Parameters, occupied: Occupied) -> Tracer | None:
        """Return a function that traces whole rays with `nerfmac.ops.trace.trace`.

        Args:
            parameters: Parameters of the field.
            occupied: Occupied cells of the scene.

        Returns:
            Tracer, or None if there is no `plain_grid` or the kernel cannot run.
        """
        grid = self.plain_grid
        if grid is None or not runs_kernel("trace"):
            return None
        # GPU kernels read the table in half precision. It is rounded here, once for all images.
        rounded = parameters | {"table": parameters["table"].astype(working_dtype())}
        sizes = TraceGeometry(occupied.geometry, grid.levels, self.networks_shape)
        return partial(_traced, rounded, sizes, occupied.bits)


def _traced(
    parameters: Parameters, sizes: TraceGeometry, bits: mx.array, rays: Rays, width: int | None
) -> Composited:
    table, density, color = (parameters[name] for name in ("table", "density", "color"))
    return trace(rays, bits, sizes, table, density, color, width)
