"""Constants that the Python code, the kernels, and the shaders of the exported page share.
Declarations with the same names are prepended to the source code of every kernel and shader."""

from collections.abc import Iterator

EARLY_STOP_TRANSMITTANCE = 1e-4  # Rays of training end below this transmittance.

RENDER_STOP_TRANSMITTANCE = 2.0**-8
"""Rays of renderings end below this transmittance, which is one of 256 levels of an image. The ray
then counts as opaque: its color is divided by its opacity, as in Instant-NGP."""

DENSITY_LIMIT = 15.0
"""Upper bound of the natural logarithm of the density. A density of e^15 per scene unit is opaque
within one marching step.

Without this limit, the optical depth of a ray would become infinite if a network output exceeded
88."""

THINNING_UNITS = 32  # Probability 1 in `nerfmac.ops.thin`; a power of two.
FRACTION_UNITS = 2**24  # Integer that represents 1 in fractions, exact in float32.
LONGEST_STEP = 0.5  # Maximum Newton step to invert distortion, in focal lengths.
SCENE_CENTER = 0.5  # Coordinate of the center of all cascades, in scene units.

PARALLEL_SLOPE = 1e-9
"""Minimum absolute component of a ray's unit direction along an axis. If the component is smaller,
the ray counts as perpendicular to that axis."""

FAR_DISTANCE = 1e9
"""Distance that is greater than the distance of any sample. Kernels use this value instead of
infinity, because Metal's fast math does not support infinity."""

OCCLUSION_END = 0.5  # Fraction of the run after which the occlusion loss is zero.

GROUND_REACH = 0.3
"""Distance from the ground plane, relative to the plane's distance from the camera, beyond which
the ground loss is constant."""

SENSOR_REACH = 0.1
"""Distance from the measured depth, relative to the measured distance, beyond which the sensor loss
is constant."""

BRICK_WIDTH = 4  # Number of cells in an occupancy grid brick along x and along y.
BRICK_DEPTH = 2  # Number of cells in an occupancy grid brick along z.
BRICK_CELLS = BRICK_WIDTH**2 * BRICK_DEPTH  # 32, the bits in a word of the grid.
NEVER_OCCUPIED = 2**30  # Age of cells that are permanently empty.
EMPTY_IN_WARMUP = 2**29  # Age of cells that are empty until the end of the warm-up.
HASH_PRIME_Y = 2654435761  # Factor of y in the spatial hash, and of other hashes.
HASH_PRIME_Z = 805459861  # Factor of the z coordinate in the spatial hash of a vertex.
LOSS_SCALE_GROWTH_INTERVAL = 2000  # Consecutive good steps before the loss scale is doubled.
LOSS_SCALE_LARGEST = 2.0**16  # Maximum of the loss scale.
LOSS_SCALE_SMALLEST = 2.0**-14  # Minimum of the loss scale.
NETWORK_OUTPUTS = 16  # Outputs of each network. The first three are the color.
DIRECTION_FEATURES = 16  # Number of inputs of the color network that encode the direction.
COLOR_INPUTS = NETWORK_OUTPUTS + DIRECTION_FEATURES  # Number of inputs of the color network.
EXPOSE_CHUNK = 32  # Number of rays whose exposure gradients a thread adds up.
MEAN_TOGETHER = 4  # Number of rays that a thread adds to a sum per iteration.
MIN_EXPOSED_OPACITY = 1e-4  # Minimum of the divisor of colors that are exposed.
TILE_ROWS = 16  # Number of rows of the matrix tile that a simdgroup computes.

NARROW_TRACE_FEATURES = 64
"""Maximum number of encoding features for which threadgroup memory suffices for all simdgroups of a
threadgroup. With more features, only WIDE_TRACE_SIMDGROUPS simdgroups trace rays."""

WIDE_TRACE_SIMDGROUPS = 2  # Number of simdgroups that trace rays with more features.

OF_DEVICES = {
    "SIMD_WIDTH": {"metal": 32, "cuda": 32, "cpu": 1},
    "TILE_SIMDGROUPS": {"metal": 4, "cuda": 4, "cpu": 1},
    "GROUP_SIMDGROUPS": {"metal": 8, "cuda": 8, "cpu": 1},
    # On an H200, a longer queue with fewer simdgroups takes 20 % more time.
    "TRACE_QUEUE": {"metal": 32, "cuda": 32, "cpu": 512},
}
"""Constants that depend on the device: threads per simdgroup, simdgroups per threadgroup in matrix
products and in sums over the rays, and rays that each simdgroup traces."""


def shared_constants() -> dict[str, int | float]:
    """Return the constants that are the same on every device, keyed by name."""
    return {
        name: value
        for name, value in globals().items()
        if name.isupper() and isinstance(value, int | float)
    }


def declarations(device: str) -> str:
    """Return C++ declarations of all constants for a device: `metal`, `cuda`, or `cpu`."""
    of_device = {name: values[device] for name, values in OF_DEVICES.items()}
    return "".join(_declared(device, shared_constants() | of_device))


def _declared(device: str, constants: dict[str, int | float]) -> Iterator[str]:
    space = "constant " if device == "metal" else ""
    for name, value in constants.items():
        if isinstance(value, float):
            yield f"{space}constexpr float {name} = {value!r}f;\n"
        else:
            kind, suffix = ("int", "") if value < 2**31 else ("unsigned int", "u")
            yield f"{space}constexpr {kind} {name} = {value}{suffix};\n"


def shader_declarations() -> str:
    """Return WGSL declarations of the constants that are the same on every device."""
    return "".join(f"const {name} = {value!r};\n" for name, value in shared_constants().items())
