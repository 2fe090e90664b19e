"""Constants that Python and the kernels share.

`nerfmac.backend.sources` declares each of them, with the same name, in front of every kernel, and
`nerfmac.app.export` in front of the shaders of the exported page. Therefore, kernels do not contain
these numbers.
"""

from __future__ import annotations

from collections.abc import Iterator

EARLY_STOP_TRANSMITTANCE = 1e-4
"""Transmittance below which a ray ends."""

DENSITY_LIMIT = 15.0
"""Maximum logarithm of the density: e^15 per scene unit is opaque within one marching step.

Without the limit, the optical depth of a ray becomes infinite if a network output exceeds 88."""

THINNING_UNITS = 32
"""The integer for a probability of 1 in `nerfmac.ops.thin`; a power of two."""

FRACTION_UNITS = 2**24
"""The integer for 1 where fractions are compared as integers; float32 has all integers up to it."""

LONGEST_STEP = 0.5
"""Largest Newton step that inverts a distortion: in focal lengths or, for fisheyes, in radians."""

SCENE_CENTER = 0.5
"""Every coordinate of the center of the scene's cube and of all cascades, in scene units."""

PARALLEL_SLOPE = 1e-9
"""Component of a unit direction below which a ray is parallel to the planes across that axis."""

FAR_DISTANCE = 1e9
"""Distance that is farther than every sample; Metal's fast math has no infinity."""

BRICK_WIDTH = 4
"""Number of cells along x and along y in an occupancy grid brick."""

BRICK_DEPTH = 2
"""Number of cells along z in an occupancy grid brick."""

BRICK_CELLS = BRICK_WIDTH**2 * BRICK_DEPTH
"""Number of cells in a brick. It must be 32, because the bits of a brick are one word."""

HASH_PRIME_Y = 2654435761
"""Factor of y in the hash of a vertex; elsewhere, the factor of a multiplicative hash."""

HASH_PRIME_Z = 805459861
"""Factor of z in the hash of a vertex."""

NETWORK_OUTPUTS = 16
"""Number of outputs of each network; only the first three of the color network are used."""

DIRECTION_FEATURES = 16
"""Number of inputs of the color network that encode the direction."""

COLOR_INPUTS = NETWORK_OUTPUTS + DIRECTION_FEATURES
"""Number of inputs of the color network."""

TILE_ROWS = 16
"""Number of rows of the matrix tile that a simdgroup computes."""

NARROW_TRACE_FEATURES = 64
"""Maximum number of features with which all simdgroups of a threadgroup trace rays. With more
features, the threadgroup memory is sufficient for WIDE_TRACE_SIMDGROUPS."""

WIDE_TRACE_SIMDGROUPS = 2
"""Maximum number of simdgroups per threadgroup that trace rays with more features."""

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
