"""Comparison of every kernel with its reference. A test case runs twice, with kernels and with
references, and returns results and gradients of a fixed random linear combination of the results
with respect to every differentiable argument. `case_of` and `compare_all` compare a custom kernel
with its reference."""

from collections.abc import Iterator
from itertools import chain

from nerfmac.app.measure.selftest import comparison, fields, losses, rays
from nerfmac.app.measure.selftest.comparison import *


def cases() -> Iterator[comparison.Case]:
    """Return all test cases, operation by operation."""
    return chain(
        *(fields.hash_encode_cases(), fields.spherical_harmonics_cases(), fields.networks_cases()),
        *(rays.uniform_cases(), rays.draw_pixels_cases(), rays.march_cases(), rays.packing_cases()),
        *(rays.composite_cases(), rays.expose_cases(), rays.thin_cases(), fields.trace_cases()),
        *(rays.visibility_cases(), rays.occupancy_update_cases(), losses.penalty_cases()),
        *(losses.huber_cases(), losses.masked_mean_cases(), losses.sensor_depth_cases()),
        *(fields.loss_scale_cases(), fields.adam_cases(), fields.moving_average_cases()),
    )
