"""Constants that the Python code and the kernels share.

`nerfmac.backend.sources` declares each constant, with the same name, before the source code of
every kernel, and `nerfmac.app.export` declares it before the shaders of the exported page.
Therefore, kernels do not repeat these numbers.
"""

from __future__ import annotations

from collections.abc import Iterator

EARLY_STOP_TRANSMITTANCE = 1e-4
"""Transmittance threshold at which a ray ends. Samples behind the end of a ray are ignored."""

DENSITY_LIMIT = 15.0
"""Maximum natural logarithm of the density. A density of e^15 per scene unit is opaque within one
marching step.

Without the limit, the optical depth of a ray becomes infinite if a network output exceeds 88."""

THINNING_UNITS = 32
"""Integer that represents a probability of 1 in `nerfmac.ops.thin`. The integer is a power of
two."""

FRACTION_UNITS = 2**24
"""Integer that represents 1 where fractions are compared as integers. float32 represents all
integers from 0 to 2^24 exactly."""

LONGEST_STEP = 0.5
"""Maximum Newton step when a lens distortion is inverted, in focal lengths or, for fisheye lenses,
in radians."""

SCENE_CENTER = 0.5
"""Coordinate of the center of the scene cube and of all cascades on each axis, in scene units."""

PARALLEL_SLOPE = 1e-9
"""Component of a unit direction along an axis below which the ray counts as perpendicular to the
axis."""

FAR_DISTANCE = 1e9
"""Distance greater than the distance of any sample. Metal's fast math does not support infinity."""

BRICK_WIDTH = 4
"""Number of cells along x and along y in an occupancy grid brick."""

BRICK_DEPTH = 2
"""Number of cells along z in an occupancy grid brick."""

BRICK_CELLS = BRICK_WIDTH**2 * BRICK_DEPTH
"""Number of cells in a brick. The number must be 32, because the bits of a brick are one 32-bit
word."""

HASH_PRIME_Y = 2654435761
"""Factor of the y coordinate in the spatial hash of a vertex. The same number is the factor of
multiplicative hashes."""

HASH_PRIME_Z = 805459861
"""Factor of the z coordinate in the spatial hash of a vertex."""

NETWORK_OUTPUTS = 16
"""Number of outputs of each network. The color is the first three outputs of the color network."""

DIRECTION_FEATURES = 16
"""Number of inputs of the color network that encode the direction."""

COLOR_INPUTS = NETWORK_OUTPUTS + DIRECTION_FEATURES
"""Number of inputs of the color network."""

TILE_ROWS = 16
"""Number of rows of the matrix tile that a simdgroup computes."""

NARROW_TRACE_FEATURES = 64
"""Maximum number of encoding features with which all simdgroups of a threadgroup trace rays. With
more features, the threadgroup memory is sufficient only for WIDE_TRACE_SIMDGROUPS simdgroups."""

WIDE_TRACE_SIMDGROUPS = 2
"""Maximum number of simdgroups per threadgroup that trace rays if the number of features is above
NARROW_TRACE_FEATURES."""

OF_DEVICES = {
    "SIMD_WIDTH": {"metal": 32, "cuda": 32, "cpu": 1},
    "TILE_SIMDGROUPS": {"metal": 4, "cuda": 4, "cpu": 1},
    # On an H200 a longer queue, with fewer simdgroups, takes a fifth more time.
    "TRACE_QUEUE": {"metal": 32, "cuda": 32, "cpu": 512},
}
"""Constants that depend on the device: number of threads of a simdgroup, number of simdgroups of a
threadgroup that multiplies matrices, and number of rays that a simdgroup traces."""


def shared_constants() -> dict[str, int | float]:
    """Return the constants that are the same on every device, by their names."""
    return {
        name: value
        for name, value in globals().items()
        if name.isupper() and isinstance(value, int | float)
    }


def declarations(device: str) -> str:
    """Return C++ declarations of all constants.

    Args:
        device: `metal`, `cuda`, or `cpu`.
    """
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
