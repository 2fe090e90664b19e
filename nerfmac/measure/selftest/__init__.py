"""Every kernel against its reference on this machine: the cases, and how they are compared.

`nerfmac selftest` prints the outcome as a table, and the test suite asserts it: a user's machine is
checked in the same way as ours. A case runs twice, with kernels and without. It gives named arrays:
results, and for every differentiable argument the gradient of a fixed random sum of the results.
`case_of` and `compare_all` do the same for a user's own kernel.
"""

from __future__ import annotations

from collections.abc import Iterator

from nerfmac.measure.selftest.comparison import Arrays as Arrays
from nerfmac.measure.selftest.comparison import Case as Case
from nerfmac.measure.selftest.comparison import Outcome as Outcome
from nerfmac.measure.selftest.comparison import agreement as agreement
from nerfmac.measure.selftest.comparison import case_of as case_of
from nerfmac.measure.selftest.comparison import compare as compare
from nerfmac.measure.selftest.comparison import in_variant as in_variant
from nerfmac.measure.selftest.diagnosis import Compared as Compared
from nerfmac.measure.selftest.diagnosis import Timed as Timed
from nerfmac.measure.selftest.diagnosis import as_text as as_text
from nerfmac.measure.selftest.diagnosis import compared as compared
from nerfmac.measure.selftest.diagnosis import compile_for as compile_for
from nerfmac.measure.selftest.diagnosis import reach as reach
from nerfmac.measure.selftest.diagnosis import timed as timed
from nerfmac.measure.selftest.encodings import hash_encode_cases, spherical_harmonics_cases
from nerfmac.measure.selftest.fields import networks_cases, trace_cases
from nerfmac.measure.selftest.learning import MEASURED as MEASURED
from nerfmac.measure.selftest.learning import prediction as prediction
from nerfmac.measure.selftest.learning import quality as quality
from nerfmac.measure.selftest.learning import trained as trained
from nerfmac.measure.selftest.learning import watchdog as watchdog
from nerfmac.measure.selftest.metal_files import write_metal as write_metal
from nerfmac.measure.selftest.optimiser import adam_cases
from nerfmac.measure.selftest.rays import (
    composite_cases,
    draw_pixels_cases,
    march_cases,
    occupancy_update_cases,
    packing_cases,
)
from nerfmac.measure.selftest.report import FINDINGS as FINDINGS
from nerfmac.measure.selftest.report import Report as Report
from nerfmac.measure.selftest.table import compare_all as compare_all
from nerfmac.measure.selftest.table import print_case as print_case
from nerfmac.measure.selftest.table import print_sum as print_sum


def cases() -> Iterator[Case]:
    """All cases, operation by operation."""
    yield from hash_encode_cases()
    yield from spherical_harmonics_cases()
    yield from networks_cases()
    yield from draw_pixels_cases()
    yield from march_cases()
    yield from packing_cases()
    yield from composite_cases()
    yield from trace_cases()
    yield from occupancy_update_cases()
    yield from adam_cases()
