"""The least bytes and operations of a training step, counted from its shapes.

Bytes moved are counted twice, for two caches. `cached` is for a perfect one: each input of a kernel
is read once and each output written once, or read and written where the kernel adds into it.
`uncached` is for none: each row that is gathered from a table, or added to one, is moved every time
it is needed. A step may move even less than `cached` if a cache keeps whole arrays from one kernel
to the next. A kernel's few settings are left out.

Operations: floating-point additions, multiplications, comparisons and functions such as exp count
one each, a multiply-add two; arithmetic on integers (hashes, indices) is left out. Every slot is
taken to hold a sample, and every sample to be reached by light.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log2

from nerfmac.config import Config
from nerfmac.fields.encodings import HashGrid
from nerfmac.ops.networks_shape import BASIS, NetworksShape
from nerfmac.sampling.occupancy import march_geometry

FLOAT = 4
"""Bytes of a float32, an int32 or a uint32."""


@dataclass(frozen=True)
class Work:
    """Bytes and operations, counted as the module's docstring says."""

    cached: int = 0  # bytes
    uncached: int = 0  # bytes
    operations: int = 0

    def __add__(self, other: Work) -> Work:
        return Work(
            self.cached + other.cached,
            self.uncached + other.uncached,
            self.operations + other.operations,
        )

    def __floordiv__(self, parts: int) -> Work:
        """One of so many equal parts."""
        return Work(self.cached // parts, self.uncached // parts, self.operations // parts)

    def seconds(self, bandwidth: float, rate: float, *, cached: bool = False) -> float:
        """The time of moving the bytes or of computing, whichever is longer, at rates a second."""
        moved = self.cached if cached else self.uncached
        return max(moved / bandwidth, self.operations / rate)


def streamed(bytes_moved: int, operations: int) -> Work:
    """The work of a kernel that gathers nothing, so that no cache makes a difference."""
    return Work(bytes_moved, bytes_moved, operations)


@dataclass(frozen=True)
class Sizes:
    """The numbers that the counts of a step depend on."""

    rays: int
    slots: int
    candidates: int  # marched samples that are tried for light; 0: none
    cells: int  # of the occupancy grid
    visited: int  # cells, by an occupancy update
    followed: int  # rays, by an occupancy update
    interval: int  # steps from one occupancy update to the next
    levels: int
    features: int  # a level
    entries: int  # of all levels' tables
    networks: NetworksShape
    half: int  # bytes of a feature or an activation
    groups: int  # partial sums of the networks' gradient
    gradient: str = "float"  # the variant of the table's

    @classmethod
    def of(cls, config: Config, extent: float, rays: int, *, on_gpu: bool) -> Sizes:
        """A step's sizes after the warm-up, in a scene of side `extent`, with `rays` rays."""
        grid, widths = HashGrid(config.grid, extent), config.networks
        cells = march_geometry(config, extent).cells
        return cls(
            rays=rays,
            slots=config.train.slots,
            candidates=config.train.candidates * config.train.slots,
            cells=cells,
            visited=ceil(cells * config.occupancy.fraction),
            followed=config.occupancy.followed,
            interval=config.occupancy.interval,
            levels=config.grid.levels,
            features=config.grid.features,
            entries=grid.levels.entries,
            networks=NetworksShape(
                grid.outputs, widths.width, widths.density_layers, widths.colour_layers
            ),
            half=2 if on_gpu else FLOAT,
            groups=256 if on_gpu else 32,
        )

    @property
    def weights(self) -> int:
        """Weights of both networks."""
        return self.networks.density.weights + self.networks.colour.weights

    @property
    def parameters(self) -> int:
        """Numbers that Adam moves."""
        return self.entries * self.features + self.weights


def hash_encode_forward(sizes: Sizes, points: int) -> Work:
    """Each point and level: its cell (5 an axis), 8 corners' weights (2) and sums (2 a feature).

    Gathered: a row of the table a corner.
    """
    each, row = points * sizes.levels, sizes.features * sizes.half
    around = 3 * FLOAT * points + each * row
    rows = 8 * each
    return Work(
        around + min(rows, sizes.entries) * row,
        around + rows * row,
        each * (3 * 5 + 8 * (2 + 2 * sizes.features)),
    )


def hash_encode_table_gradient(sizes: Sizes, points: int) -> Work:
    """As forward; each corner's gradient (1 a feature) is added to a row of float32 (1 a feature).

    The rows start from zero, which writes the table once.
    """
    each, row = points * sizes.levels, sizes.features * FLOAT
    around = 3 * FLOAT * points + each * sizes.features * sizes.half
    table = sizes.entries * row
    return Work(
        around + 2 * table,
        around + table + 2 * 8 * each * row,
        each * (3 * 5 + 8 * (2 + 2 * sizes.features)),
    )


def spherical_harmonics_forward(sizes: Sizes) -> Work:
    """The polynomials as they are written: 43 operations a direction."""
    return streamed(sizes.rays * (3 + BASIS) * FLOAT, 43 * sizes.rays)


def networks_store(sizes: Sizes) -> Work:
    """Every weight is read once and written twice, in the working type."""
    return streamed(sizes.weights * (FLOAT + 2 * sizes.half), 0)


def _network_inputs(sizes: Sizes) -> int:
    """Bytes of features, of each sample's ray, of the rays' bases and of the stored weights."""
    sample = sizes.networks.features * sizes.half + FLOAT
    return sizes.slots * sample + sizes.rays * BASIS * FLOAT + 2 * sizes.weights * sizes.half


def networks_forward(sizes: Sizes) -> Work:
    """A multiply-add a sample and weight; density and colour are written."""
    return streamed(
        _network_inputs(sizes) + sizes.slots * 4 * FLOAT, 2 * sizes.slots * sizes.weights
    )


def networks_gradient(sizes: Sizes) -> Work:
    """Forward again, and two products as large: for the gradients of inputs and of weights.

    The gradients of density and colour are read, that of features written, that of the weights
    written as partial sums.
    """
    moved = sizes.slots * (4 * FLOAT + sizes.networks.features * sizes.half)
    moved += sizes.groups * sizes.weights * FLOAT
    return streamed(_network_inputs(sizes) + moved, 6 * sizes.slots * sizes.weights)


def networks_density(sizes: Sizes, points: int) -> Work:
    """A multiply-add a point and weight of the density network."""
    moved = points * (sizes.networks.features * sizes.half + FLOAT)
    return streamed(
        moved + 2 * sizes.weights * sizes.half, 2 * points * sizes.networks.density.weights
    )


def _march(sizes: Sizes, samples: int, moved: int) -> Work:
    """One pass: a ray meets the cube (32), a sample's place (8) and cell (20) are found.

    What is spent on intervals in empty cells is not known from the shapes and left out. Gathered:
    a word of the grid a sample.
    """
    moved += sizes.rays * 7 * FLOAT  # origin, direction, jitter
    words = sizes.cells // 32
    return Work(
        moved + min(words, samples) * FLOAT,
        moved + samples * FLOAT,
        32 * sizes.rays + 28 * samples,
    )


def draw_pixels(sizes: Sizes) -> Work:
    """Each ray: a pixel's place (6), colour (4), point (6) and direction, of length one (24).

    Gathered: the pixel, and its camera's lens and pose, which `cached` leaves out. Distortion is
    not counted.
    """
    moved = sizes.rays * ((3 + 11) * FLOAT + 4)  # random numbers, results, the pixel
    return Work(moved, moved + sizes.rays * 16 * FLOAT, 40 * sizes.rays)


def march_count(sizes: Sizes, samples: int) -> Work:
    """A pass that writes a number a ray."""
    return _march(sizes, samples, sizes.rays * FLOAT)


def march_write(sizes: Sizes, samples: int) -> Work:
    """A pass that reads each ray's slots and writes position, distance, width and ray."""
    return _march(sizes, samples, (2 * sizes.rays + 1) * FLOAT + 6 * samples * FLOAT)


def packing_starts(sizes: Sizes) -> Work:
    """Each ray's end is read and its start written."""
    return streamed((2 * sizes.rays + 1) * FLOAT, sizes.rays)


def march_lit(sizes: Sizes) -> Work:
    """A pass that writes a number a cell, which starts from zero. A ray's cells are not counted."""
    moved = (8 * sizes.rays + 2 * sizes.cells) * FLOAT
    return Work(moved, moved, 32 * sizes.rays)


def composite_reached(sizes: Sizes, samples: int) -> Work:
    """Each sample's density and width are read, and its weight (7) is found."""
    moved = 2 * samples + (sizes.rays + 1) + 2 * sizes.rays
    return streamed(moved * FLOAT, 7 * samples)


def composite_forward(sizes: Sizes) -> Work:
    """Each sample: its weight (7), the sums of colour, distance and opacity (9)."""
    moved = 6 * sizes.slots + (sizes.rays + 1) + 5 * sizes.rays
    return streamed(moved * FLOAT, 16 * sizes.slots)


def composite_gradient(sizes: Sizes) -> Work:
    """Each sample: its weight (7), what is along the gradient (8), behind it (4), results (6)."""
    moved = (6 + 4) * sizes.slots + (sizes.rays + 1) + 2 * 5 * sizes.rays
    return streamed(moved * FLOAT, 25 * sizes.slots)


def adam(sizes: Sizes) -> Work:
    """Each parameter: three numbers read, two written; 15 operations, and 15 to pack moments."""
    return streamed(5 * FLOAT * sizes.parameters, 30 * sizes.parameters)


def average(sizes: Sizes) -> Work:
    """Each parameter's average: two numbers read, one written, three operations."""
    return streamed(3 * FLOAT * sizes.parameters, 3 * sizes.parameters)


def occupancy_splat(sizes: Sizes) -> Work:
    """Each estimate raises a cell's; the cells start from zero, which writes them once."""
    around = 2 * FLOAT * sizes.visited
    cells = FLOAT * sizes.cells
    return Work(around + 2 * cells, around + cells + 2 * FLOAT * sizes.visited, sizes.visited)


def occupancy_choose(sizes: Sizes) -> Work:
    """Each draw among occupied cells halves the words until one is left, and looks for its bit.

    Gathered: a number a halving.
    """
    draws, words = sizes.visited // 2, sizes.cells // 32
    halvings, around = ceil(log2(words)), 2 * FLOAT * draws
    gathered = draws * (halvings + 2)
    return Work(
        around + min(gathered, 2 * words) * FLOAT,
        around + gathered * FLOAT,
        draws * (3 * halvings + 32),
    )


def occupancy_pack(sizes: Sizes) -> Work:
    """Each cell's value is compared and becomes a bit."""
    return streamed(FLOAT * sizes.cells + sizes.cells // 8, sizes.cells)
