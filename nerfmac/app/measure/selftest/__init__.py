"""Comparison of every kernel with its reference. A test case runs twice, with kernels and with
references, and returns results and gradients of a fixed random linear combination of the results
with respect to every differentiable argument. `case_of` and `compare_all` compare a custom kernel
with its reference."""

from collections.abc import Iterator
from itertools import chain

from nerfmac.app.measure.selftest.comparison import (
    Case as Case,
    Outcome as Outcome,
    case_of as case_of,
    compare as compare,
    compare_all as compare_all,
)
from nerfmac.app.measure.selftest.fields import (
    adam_cases,
    hash_encode_cases,
    loss_scale_cases,
    moving_average_cases,
    networks_cases,
    spherical_harmonics_cases,
    trace_cases,
)
from nerfmac.app.measure.selftest.losses import (
    huber_cases,
    masked_mean_cases,
    penalty_cases,
    sensor_depth_cases,
)
from nerfmac.app.measure.selftest.rays import (
    composite_cases,
    draw_pixels_cases,
    expose_cases,
    march_cases,
    occupancy_update_cases,
    packing_cases,
    thin_cases,
    uniform_cases,
    visibility_cases,
)


def cases() -> Iterator[Case]:
    """Return all test cases, operation by operation."""
    return chain(
        *(hash_encode_cases(), spherical_harmonics_cases(), networks_cases()),
        *(uniform_cases(), draw_pixels_cases(), march_cases(), packing_cases()),
        *(composite_cases(), expose_cases(), thin_cases(), trace_cases(), visibility_cases()),
        *(occupancy_update_cases(), penalty_cases(), huber_cases(), masked_mean_cases()),
        *(sensor_depth_cases(), loss_scale_cases(), adam_cases(), moving_average_cases()),
    )
