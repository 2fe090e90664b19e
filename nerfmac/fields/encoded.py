"""`RadianceField`: density and colour at a position, seen along a direction.

Hash encoding, a density network and on top of it a colour network that also takes spherical
harmonics of the direction (Müller et al. 2022, section 5.4). Parameters are values that are handed
in, so the training step, the averaged copy and a checkpoint all speak of the same plain arrays.
"""

from __future__ import annotations

from functools import cached_property

import mlx.core as mx

from nerfmac.backend import working_dtype
from nerfmac.config import Config
from nerfmac.fields.encodings import HashGrid
from nerfmac.fields.networks import Parameters, StackedMlps
from nerfmac.geometry.rays import Rays
from nerfmac.geometry.samples import Samples
from nerfmac.ops.composite import Composited
from nerfmac.ops.march import MarchGeometry
from nerfmac.ops.networks import NetworksShape
from nerfmac.ops.spherical_harmonics import spherical_harmonics
from nerfmac.ops.trace import TraceGeometry, trace


class RadianceField:
    """The field of a scene whose cube has the side `extent`; holds no parameters itself."""

    def __init__(self, config: Config, extent: float) -> None:
        self._grid = HashGrid(config.grid, extent)
        networks = config.networks
        self._networks = StackedMlps(
            NetworksShape(
                self._grid.outputs,
                networks.width,
                networks.density_layers,
                networks.colour_layers,
            )
        )

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The parameters' names and shapes; all are float32."""
        table = (self._grid.levels.entries, self._grid.config.features)
        return {"table": table, **self._networks.shapes}

    def init(self, key: mx.array) -> Parameters:
        """Fresh parameters: `table`, `density` and `colour`."""
        table, density, colour = mx.random.split(key, 3)
        return {"table": self._grid.init(table), **self._networks.init(density, colour)}

    def rounded(self, parameters: Parameters) -> Parameters:
        """The parameters with the table as it is read, in half precision on a GPU.

        The encoding does so itself; whoever evaluates a field often does it once.
        """
        return parameters | {"table": parameters["table"].astype(working_dtype())}

    def __call__(
        self, parameters: Parameters, samples: Samples, directions: mx.array
    ) -> tuple[mx.array, mx.array]:
        """Density (slots,) per scene unit and colour (slots, 3) in [0, 1] of packed samples.

        `directions` (rays, 3) are the rays', unit. Differentiable in the parameters and positions.
        """
        used = samples.ray_start[-1:]
        features = self._grid(parameters["table"], samples.position, used)
        basis = spherical_harmonics(mx.stop_gradient(directions))
        return self._networks(parameters, features, basis, samples.ray, used)

    def density(self, parameters: Parameters, position: mx.array) -> mx.array:
        """Density (points,) per scene unit at `position` (points, 3), without a gradient."""
        features = self._grid(parameters["table"], position)
        return self._networks.density(parameters, features)

    def trace(
        self,
        parameters: Parameters,
        rays: Rays,
        width: int,
        *,
        bits: mx.array,
        geometry: MarchGeometry,
    ) -> Composited:
        """What `rays` see, sampled in the occupied cells of `bits`; arguments as in `ops.trace`."""
        sizes = TraceGeometry(geometry, self._grid.levels, self._networks.shape)
        table, density, colour = (parameters[name] for name in ("table", "density", "colour"))
        return trace(rays.origin, rays.direction, bits, sizes, table, density, colour, width)
